//! Several workers: unstarted fibers go to any worker that has time, and what belongs to a thread
//! stays with its fiber.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber as fiber;
use rowlock_fiber::{Config, JoinError, RunError, Runtime};

use crate::at_drop::AtDrop;

fn with(workers: u32) -> Runtime {
    Runtime::new(Config { workers, ..Config::default() })
}

/// The same without ends of running times: the first fiber spawns all others before one of them
/// runs on its worker and blocks the kernel thread.
fn patient(workers: u32) -> Runtime {
    let rules = FeedbackRules { levels: 1, running_time: Span::from_millis(1_000_000), boost: Boost::Never };
    Runtime::new(Config { workers, rules, ..Config::default() })
}

#[test]
fn fibers_that_never_reach_a_safepoint_run_at_the_same_time() {
    for workers in [2, 3] {
        let meet = move || {
            // It opens only when this many kernel threads are blocked in the kernel at once.
            let barrier = Arc::new(Barrier::new(workers as usize));
            let fibers: Vec<_> = (0..workers)
                .map(|_| {
                    let barrier = Arc::clone(&barrier);
                    fiber::spawn(move || barrier.wait().is_leader())
                })
                .collect();
            fibers.into_iter().map(|fiber| u32::from(fiber.join().unwrap())).sum::<u32>()
        };
        let leaders = patient(workers).run(|| {
            // However long the others have had nothing to do: a searcher sees it, or a sleeper is
            // woken to search.
            [0, 0, 1, 20].map(|pause| {
                fiber::sleep(Duration::from_millis(pause));
                meet()
            })
        });
        assert_eq!(leaders.unwrap(), [1; 4]);
    }
}

#[test]
fn fibers_start_elsewhere_while_the_first_one_blocks_its_kernel_thread() {
    let (send, receive) = mpsc::channel();
    let result = with(2).run(move || {
        for i in 0..10 {
            let send = send.clone();
            fiber::spawn(move || send.send(i).unwrap()).detach();
        }
        (0..10).map(|_| receive.recv().unwrap()).sum::<u32>()
    });
    assert_eq!(result.unwrap(), 45);
}

#[test]
fn a_fiber_is_one_thread_from_its_start_to_its_end() {
    thread_local! {
        static VALUE: Cell<u64> = const { Cell::new(0) };
    }
    let seen = Arc::new(Mutex::new(std::collections::HashSet::<ThreadId>::new()));
    with(3)
        .run(|| {
            let fibers: Vec<_> = (0..200u64)
                .map(|i| {
                    let seen = Arc::clone(&seen);
                    fiber::spawn(move || {
                        let home = thread::current().id();
                        seen.lock().unwrap().insert(home);
                        for round in 0..20 {
                            VALUE.set(i);
                            match (i + round) % 3 {
                                0 => fiber::yield_now(),
                                1 => fiber::sleep(Duration::from_micros(50)),
                                _ => fiber::spawn(|| ()).join().unwrap(),
                            }
                            assert_eq!(thread::current().id(), home);
                        }
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        })
        .unwrap();
    assert!(!seen.lock().unwrap().is_empty());
}

#[test]
fn an_unstarted_fiber_and_one_that_yields_forever_take_turns() {
    // All workers have a fiber that is always ready; an unstarted one comes in between.
    with(2)
        .run(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let yields = |stop: &Arc<AtomicBool>| {
                let stop = Arc::clone(stop);
                move || {
                    while !stop.load(Relaxed) {
                        fiber::yield_now();
                    }
                }
            };
            let busy: Vec<_> = (0..4).map(|_| fiber::spawn(yields(&stop))).collect();
            let starts = fiber::spawn({
                let stop = Arc::clone(&stop);
                move || stop.store(true, Relaxed)
            });
            starts.join().unwrap();
            busy.into_iter().for_each(|fiber| fiber.join().unwrap());
        })
        .unwrap();
}

#[test]
fn no_wakeup_across_workers_is_lost() {
    let (fibers, rounds) = (24, 400u64);
    let total = with(3)
        .run(|| {
            let place = Arc::new((fiber::Mutex::new(0u64), fiber::Condvar::new()));
            let all: Vec<_> = (0..fibers)
                .map(|i| {
                    let place = Arc::clone(&place);
                    fiber::spawn(move || {
                        let (turn, changed) = &*place;
                        for round in 0..rounds {
                            // In turn, so each step wakes a certain other fiber, perhaps of another
                            // worker.
                            let mine = round * fibers + i;
                            let mut turn = changed.wait_while(turn.lock(), |turn| *turn != mine);
                            *turn += 1;
                            drop(turn);
                            changed.notify_all();
                            if mine % 7 == 0 {
                                fiber::spawn(|| ()).join().unwrap();
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(|fiber| fiber.join().unwrap());
            *place.0.lock()
        })
        .unwrap();
    assert_eq!(total, fibers * rounds);
}

#[test]
fn fibers_of_several_workers_join_and_detach_each_other_at_random() {
    fn tree(depth: u64, seed: u64, ended: Arc<AtomicU64>) -> u64 {
        let mut sum = 1;
        if depth > 0 {
            let children: Vec<_> = (0..4)
                .map(|i| {
                    let (seed, ended) =
                        (seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i), Arc::clone(&ended));
                    fiber::spawn(move || tree(depth - 1, seed, ended))
                })
                .collect();
            for (i, child) in children.into_iter().enumerate() {
                match (seed >> 33).wrapping_add(i as u64) % 3 {
                    0 => child.detach(),
                    1 => sum += child.join().unwrap(),
                    _ => {
                        fiber::yield_now();
                        sum += if child.is_finished() { child.join().unwrap() } else { 0 };
                    }
                }
            }
        }
        ended.fetch_add(1, SeqCst);
        sum
    }
    let ended = Arc::new(AtomicU64::new(0));
    let sum = with(2)
        .run(|| {
            let sum = tree(6, 17, Arc::clone(&ended));
            let all = (0..=6).map(|depth| 4u64.pow(depth)).sum::<u64>();
            while ended.load(SeqCst) < all {
                fiber::yield_now();
            }
            sum
        })
        .unwrap();
    assert!(sum > 1);
}

#[test]
fn records_circulate_between_workers() {
    let runtime = Runtime::new(Config { workers: 2, most: 4096, ..Config::default() });
    runtime
        .run(|| {
            let busy = Arc::new(AtomicUsize::new(0));
            for _ in 0..50_000 {
                while busy.load(SeqCst) > 100 {
                    fiber::yield_now();
                }
                busy.fetch_add(1, SeqCst);
                let busy = Arc::clone(&busy);
                fiber::spawn(move || busy.fetch_sub(1, SeqCst)).detach();
            }
        })
        .unwrap();
}

#[test]
fn a_runtime_that_ends_under_load_drops_everything_that_its_fibers_own() {
    for round in 0..40 {
        let (made, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let thing = {
            let (made, dropped) = (Arc::clone(&made), Arc::clone(&dropped));
            move || {
                made.fetch_add(1, SeqCst);
                let dropped = Arc::clone(&dropped);
                AtDrop(move || _ = dropped.fetch_add(1, SeqCst))
            }
        };
        let error = with(3).run(|| {
            let place = Arc::new((fiber::Mutex::new(()), fiber::Condvar::new()));
            for i in 0..90 {
                let (thing, more, place) = (thing(), thing.clone(), Arc::clone(&place));
                fiber::spawn(move || {
                    let _thing = thing;
                    match i % 6 {
                        0 => fiber::sleep(Duration::from_secs(1000)),
                        1 => loop {
                            fiber::yield_now();
                        },
                        2 => drop(place.1.wait(place.0.lock())),
                        3 => {
                            let inner = more();
                            fiber::spawn(move || drop(inner)).detach();
                        }
                        4 => fiber::spawn(|| fiber::sleep(Duration::from_secs(1000))).join().unwrap(),
                        _ => loop {
                            fiber::spawn(|| ()).join().unwrap();
                        },
                    }
                })
                .detach();
                if i % 30 == round {
                    fiber::yield_now();
                }
            }
            if round % 2 == 0 {
                fiber::exit();
            }
        });
        assert!(matches!(error, Ok(()) | Err(RunError::Exited)), "{error:?}");
        assert_eq!(dropped.load(SeqCst), made.load(SeqCst));
    }
}

#[test]
fn it_is_a_deadlock_if_all_workers_wait_forever() {
    for workers in [2, 3] {
        let config = Config { workers, closed: true, ..Config::default() };
        let error = Runtime::new(config).run(|| {
            let place = Arc::new((fiber::Mutex::new(()), fiber::Condvar::new()));
            for _ in 0..10 {
                let place = Arc::clone(&place);
                fiber::spawn(move || drop(place.1.wait(place.0.lock()))).detach();
            }
            drop(place.1.wait(place.0.lock()));
        });
        assert!(matches!(error, Err(RunError::Deadlock(_))), "{error:?}");
    }
}

#[test]
fn join_returns_a_panic_or_an_exit_of_a_fiber_on_another_worker() {
    patient(2)
        .run(|| {
            let barrier = Arc::new(Barrier::new(2));
            let fibers: Vec<_> = (0..2)
                .map(|i| {
                    let barrier = Arc::clone(&barrier);
                    fiber::spawn(move || {
                        barrier.wait();
                        if i == 0 { fiber::exit() } else { panic!("on purpose") }
                    })
                })
                .collect();
            let mut errors = fibers.into_iter().map(|fiber| Err::<(), _>(fiber.join().unwrap_err()));
            assert!(matches!(errors.next().unwrap(), Err(JoinError::Exited)));
            assert!(matches!(errors.next().unwrap(), Err(JoinError::Panicked(_))));
        })
        .unwrap();
}

#[test]
fn fibers_of_a_scope_borrow_across_workers() {
    let sum = with(3).run(|| {
        let numbers: Vec<u64> = (0..10_000).collect();
        let total = AtomicU64::new(0);
        for _ in 0..20 {
            fiber::scope(|scope| {
                for part in numbers.chunks(100) {
                    let total = &total;
                    scope.spawn(move || total.fetch_add(part.iter().sum::<u64>(), Relaxed));
                }
            });
        }
        total.into_inner()
    });
    assert_eq!(sum.unwrap(), 20 * 49_995_000);
}

#[test]
fn workers_that_use_a_new_object_at_the_same_time_both_enter() {
    const OBJECTS: usize = 2_000;
    let come = AtomicUsize::new(0);
    let objects: Vec<_> = (0..OBJECTS).map(|_| fiber::Mutex::new(0_u32)).collect();
    let use_all = || {
        // A fiber that fails keeps no other one waiting.
        let _ends = AtDrop(|| come.store(3 * OBJECTS, SeqCst));
        for (index, object) in objects.iter().enumerate() {
            come.fetch_add(1, SeqCst);
            let mut looks = 0;
            while come.load(SeqCst) < 2 * (index + 1) {
                looks += 1;
                // The other fiber may have no CPU.
                if looks % 1_000 == 0 { thread::yield_now() } else { std::hint::spin_loop() }
            }
            *object.lock() += 1;
        }
    };
    let run = patient(2).run(|| {
        fiber::scope(|scope| {
            let fibers = [scope.spawn(use_all), scope.spawn(use_all)];
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
    });
    run.unwrap();
    assert!(objects.into_iter().all(|object| object.into_inner() == 2));
}
