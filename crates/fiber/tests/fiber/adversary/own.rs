//! This crate itself: everything that fibers call, from fibers that are interrupted anywhere, and
//! from others beside them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use rowlock_fiber as fiber;
use rowlock_fiber::{Builder, JoinError, Mutex, RwLock, Semaphore, dump, preemptions, sleep, spawn, yield_now};

use crate::adversary::case::{PREEMPTIBLE, alone, hasty, hazard, length};

#[test]
fn fibers_spawn_join_and_detach_others() {
    alone(|| {
        hazard(|who, round| {
            let answer = spawn(move || vec![who; 1 + round as usize % 50]);
            let other = Builder::new().preemptible(who % 2 == 0).spawn(move || fiber::exit()).unwrap();
            assert!(matches!(other.join(), Err::<(), _>(JoinError::Exited)));
            assert_eq!(answer.join().unwrap(), vec![who; 1 + round as usize % 50]);
            let mut parts = [0_u64; 4];
            fiber::scope(|scope| {
                for (i, part) in (0..).zip(&mut parts) {
                    scope.spawn(move || {
                        *part = (0..1_000).map(|each| each ^ (who + i)).sum();
                    });
                }
            });
            assert!((0..).zip(parts).all(|(i, part)| part == (0..1_000).map(|each| each ^ (who + i)).sum::<u64>()));
        });
    });
}

#[test]
fn locks_of_fibers_exclude_each_other() {
    alone(|| {
        let pair = Arc::new(Mutex::new((0_u64, 0_u64)));
        let both = Arc::new(RwLock::new((0_u64, vec![0_u64; 30])));
        let permits = Arc::new((Semaphore::new(2), AtomicU64::new(0)));
        for workers in [1, 2] {
            let work = |pair: Arc<Mutex<(u64, u64)>>,
                        both: Arc<RwLock<(u64, Vec<u64>)>>,
                        permits: Arc<(Semaphore, AtomicU64)>| {
                move || {
                    let began = Instant::now();
                    let mut round = 0;
                    while round < 500 || began.elapsed() < length() / 2 {
                        {
                            let mut pair = pair.lock();
                            let one = pair.0;
                            (0..100).for_each(|_| pair.0 += 1);
                            assert_eq!((pair.0, pair.1), (one + 100, one));
                            pair.1 += 100;
                        }
                        if round % 4 == 0 {
                            let mut both = both.write();
                            both.0 += 1;
                            let to = both.0;
                            both.1.iter_mut().for_each(|each| *each = to);
                        } else {
                            let both = both.read();
                            assert!(both.1.iter().all(|each| *each == both.0));
                        }
                        {
                            let _permit = permits.0.acquire();
                            assert!(permits.1.fetch_add(1, Relaxed) < 2);
                            (0..100).for_each(|i| {
                                std::hint::black_box(i);
                            });
                            permits.1.fetch_sub(1, Relaxed);
                        }
                        round += 1;
                    }
                }
            };
            // They belong to one runtime at a time.
            hasty(workers)
                .run(|| {
                    let work = || work(Arc::clone(&pair), Arc::clone(&both), Arc::clone(&permits));
                    let mut fibers: Vec<_> = (0..PREEMPTIBLE).map(|_| spawn(work())).collect();
                    fibers.push(Builder::new().preemptible(false).spawn(work()).unwrap());
                    work()();
                    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
                    println!("{:?}", preemptions());
                })
                .unwrap();
        }
    });
}

#[test]
fn channels_of_fibers_deliver_everything_once() {
    alone(|| {
        const MESSAGES: u64 = 5_000;
        for workers in [1, 2] {
            let sum = hasty(workers)
                .run(|| {
                    let fibers: Vec<_> = (0..PREEMPTIBLE)
                        .map(|pair| {
                            let (sender, receiver) = fiber::channel(1 + pair as usize);
                            let sends = move || (0..MESSAGES).for_each(|i| sender.send(Box::new(i)).unwrap());
                            Builder::new().preemptible(pair % 3 != 0).spawn(sends).unwrap().detach();
                            spawn(move || {
                                let mut sum = 0;
                                while let Ok(value) = receiver.recv() {
                                    sum += *value;
                                }
                                sum
                            })
                        })
                        .collect();
                    fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<u64>()
                })
                .unwrap();
            assert_eq!(sum, PREEMPTIBLE * MESSAGES * (MESSAGES - 1) / 2);
        }
    });
}

#[test]
fn sleepers_and_blocking_calls_return() {
    alone(|| {
        hazard(|who, round| {
            let (began, time) = (Instant::now(), Duration::from_micros(100 + who * 10));
            sleep(time);
            assert!(began.elapsed() >= time);
            let end = Instant::now() + time;
            while Instant::now() < end {}
            if round % 4 == 0 {
                assert_eq!(fiber::blocking(move || vec![who; 20]), vec![who; 20]);
            }
            yield_now();
        });
    });
}

#[test]
fn a_dump_does_not_change_an_interrupted_fiber() {
    #[inline(never)]
    fn busy(who: u64, round: u64) {
        let all: Vec<Vec<u64>> = (0..50).map(|i| vec![who << 32 | round; 1 + i]).collect();
        assert!(all.iter().flatten().all(|each| *each == who << 32 | round));
    }
    alone(|| {
        hazard(|who, round| {
            if who >= PREEMPTIBLE {
                let seen = dump();
                assert!(seen.to_string().len() > 20);
            } else {
                busy(who, round);
            }
        });
    });
}

#[test]
fn the_first_fiber_is_preemptible_although_there_was_no_timer_when_it_was_spawned() {
    /// Sets how many signals may be pending, of which each timer needs one; returns the old limit.
    fn limit(now: libc::rlim_t) -> libc::rlim_t {
        let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: there is room for the answer, and the limits are only read.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_SIGPENDING, &raw mut limits), 0);
            let before = std::mem::replace(&mut limits.rlim_cur, now);
            assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const limits), 0);
            before
        }
    }
    alone(|| {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        hasty(1)
            .run(|| {
                let remote = fiber::remote();
                let before = limit(0);
                let loops = move || {
                    while !theirs.load(Relaxed) {}
                    spawn(|| 7).join().unwrap()
                };
                // If a fiber spawned it, it would be refused immediately. It is spawned from
                // outside.
                let outside = std::thread::spawn(move || remote.spawn(loops).unwrap());
                // It must not start in between.
                while !outside.is_finished() {}
                limit(before);
                let loops = outside.join().unwrap();
                sleep(Duration::from_millis(1));
                over.store(true, Relaxed);
                assert_eq!(loops.join().unwrap(), 7);
            })
            .unwrap();
    });
}
