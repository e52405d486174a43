//! The standard library's support for threads: locals, locks, and ways to wait.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::time::Duration;

use rowlock_fiber::{Builder, spawn, yield_now};

use crate::adversary::case::{PREEMPTIBLE, alone, hasty, hazard};

thread_local! {
    static OWN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    static PLAIN: Cell<u64> = const { Cell::new(0) };
    static MADE: RefCell<Made> = RefCell::new(Made::new());
}

static MADE_IN_ALL: AtomicUsize = AtomicUsize::new(0);
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// A thread-local of a type with a destructor, which must be initialized.
struct Made(Vec<String>);

impl Made {
    fn new() -> Made {
        MADE_IN_ALL.fetch_add(1, Relaxed);
        Made(Vec::new())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Relaxed);
    }
}

#[test]
fn thread_locals_belong_to_the_fiber() {
    alone(|| {
        hazard(|who, round| {
            PLAIN.set(who << 32 | round);
            MADE.with_borrow_mut(|made| made.0 = vec![who.to_string(); 3]);
            OWN.with_borrow_mut(|own| {
                own.clear();
                for i in 0..100 {
                    own.push(who << 32 | i);
                    assert_eq!(PLAIN.get(), who << 32 | round);
                }
            });
            let right = |(value, i): (&u64, u64)| *value == who << 32 | i;
            assert!(OWN.with_borrow(|own| own.len() == 100 && own.iter().zip(0..).all(right)));
            assert!(MADE.with_borrow(|made| made.0.iter().all(|text| *text == who.to_string())));
        });
        let (made, dropped) = (MADE_IN_ALL.load(Relaxed), DROPPED.load(Relaxed));
        assert!(made >= PREEMPTIBLE as usize, "each fiber has one, but only {made} were initialized");
        assert!(dropped + 1 >= made, "only the first fiber's may be left, but {dropped} of {made} were dropped");
    });
}

#[test]
fn locks_exclude_each_other() {
    alone(|| {
        let (pair, both) = (Arc::new(Mutex::new((0_u64, 0_u64))), Arc::new(RwLock::new((0_u64, vec![0_u64; 20]))));
        hazard(move |_, round| {
            {
                let mut pair = pair.lock().unwrap();
                let one = pair.0;
                (0..50).for_each(|_| pair.0 += 1);
                assert_eq!((pair.0, pair.1), (one + 50, one));
                pair.1 += 50;
            }
            if round % 4 == 0 {
                let mut both = both.write().unwrap();
                both.0 += 1;
                let to = both.0;
                both.1.iter_mut().for_each(|each| *each = to);
            } else {
                let both = both.read().unwrap();
                assert!(both.1.iter().all(|each| *each == both.0));
            }
        });
    });
}

/// A value that is created once.
struct Single {
    once: Once,
    many: AtomicUsize,
    cell: OnceLock<Vec<u64>>,
}

#[test]
fn values_are_created_once() {
    alone(|| {
        let new = || Single { once: Once::new(), many: AtomicUsize::new(0), cell: OnceLock::new() };
        let all: Arc<Vec<Single>> = Arc::new((0..5_000).map(|_| new()).collect());
        hazard(move |who, round| {
            let single = &all[round as usize % all.len()];
            single.once.call_once(|| {
                (0..20).for_each(|_| drop(std::hint::black_box(vec![who; 10])));
                single.many.fetch_add(1, Relaxed);
            });
            assert_eq!(single.many.load(Relaxed), 1);
            let first = single.cell.get_or_init(|| vec![who; 30]);
            assert!(first.len() == 30 && first.iter().all(|each| *each == first[0]));
        });
    });
}

type Channel = (Box<dyn Fn(Box<u64>) + Send>, mpsc::Receiver<Box<u64>>);

fn bounded(messages: usize) -> Channel {
    let (sender, receiver) = mpsc::sync_channel(messages);
    (Box::new(move |message| sender.send(message).unwrap()), receiver)
}

fn unbounded() -> Channel {
    let (sender, receiver) = mpsc::channel();
    (Box::new(move |message| sender.send(message).unwrap()), receiver)
}

#[test]
fn channels_of_the_standard_library_deliver_everything_once() {
    alone(|| {
        // A receiver waits for a message in the kernel, until it is interrupted.
        const MESSAGES: u64 = 200;
        for workers in [1, 2] {
            let sums: Vec<_> = hasty(workers)
                .run(|| {
                    let fibers: Vec<_> = (0..6)
                        .flat_map(|pair| {
                            // The last pair's receiver cannot be interrupted, and waits in the
                            // kernel or yields. The sender runs on its timeslice only if it was
                            // interrupted outside of the library. (At a bounded channel it might
                            // poll without a yield, and so forever, for a message that the sender
                            // is in the middle of sending.)
                            let is_preemptible = pair < 5;
                            let is_outside = Arc::new(AtomicBool::new(is_preemptible));
                            let theirs = Arc::clone(&is_outside);
                            let (send, receiver) = if is_preemptible { bounded(pair) } else { unbounded() };
                            let sends = spawn(move || {
                                is_outside.store(true, Relaxed);
                                (0..MESSAGES).for_each(|i| send(Box::new(i)));
                                MESSAGES * (MESSAGES - 1) / 2
                            });
                            let receives = move || {
                                while !theirs.load(Relaxed) {
                                    yield_now();
                                }
                                receiver.iter().map(|value| *value).sum()
                            };
                            [sends, Builder::new().preemptible(is_preemptible).spawn(receives).unwrap()]
                        })
                        .collect();
                    fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
                })
                .unwrap();
            assert_eq!(sums, [MESSAGES * (MESSAGES - 1) / 2; 12]);
        }
    });
}

#[test]
fn condition_variables_and_barriers_synchronize_fibers() {
    alone(|| {
        const TIMES: u64 = 200;
        for workers in [1, 2] {
            let meeting = Arc::new((Mutex::new(0_u64), Condvar::new(), Barrier::new(PREEMPTIBLE as usize)));
            let work = |who: u64, meeting: Arc<(Mutex<u64>, Condvar, Barrier)>| {
                move || {
                    for time in 0..TIMES {
                        let (turn, moved, barrier) = &*meeting;
                        let mut turn = turn.lock().unwrap();
                        while *turn != time * PREEMPTIBLE + who {
                            turn = moved.wait_timeout(turn, Duration::from_secs(1_000)).unwrap().0;
                        }
                        *turn += 1;
                        drop(turn);
                        moved.notify_all();
                        barrier.wait();
                    }
                }
            };
            hasty(workers)
                .run(|| {
                    let fibers: Vec<_> = (0..PREEMPTIBLE).map(|who| spawn(work(who, Arc::clone(&meeting)))).collect();
                    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
                })
                .unwrap();
            assert_eq!(*meeting.0.lock().unwrap(), TIMES * PREEMPTIBLE);
        }
    });
}
