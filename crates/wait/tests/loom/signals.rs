//! Loom models of the semaphore, event, latch, parker and words: all interleavings up to a bound on
//! preemptions, all values that a load may return.
//!
//! A lost wakeup is a deadlock, which loom reports. A missing happens-before edge is a race on a
//! cell, which it reports too.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use policy::Span;
use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::{Event, Latch, Parker, Reset, Semaphore, Waiting, word};

const COSTS: Costs =
    Costs { cs: Span::from_micros(1), margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::from_millis(4) };

fn by(rule: &str) -> Waiting {
    Waiting::by(rule.parse::<WaitingRule>().unwrap()).with_costs(COSTS).with_cpus(2)
}

/// Checks `run` in all interleavings with at most `preemptions` preemptions.
fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(run);
}

/// Plain memory: loom checks whether the accesses are ordered.
#[derive(Default)]
struct Plain(UnsafeCell<()>);

impl Plain {
    fn write(&self) {
        self.0.with_mut(|_| ());
    }

    fn read(&self) {
        self.0.with(|_| ());
    }
}

/// Three threads acquire the only permit of a semaphore in turn.
fn take_turns(rule: &'static str, turns: u32, preemptions: usize) {
    model(preemptions, move || {
        let shared = Arc::new((Semaphore::with(1, by(rule)), Plain::default()));
        let work = move |(semaphore, plain): &(Semaphore, Plain)| {
            for _ in 0..turns {
                assert_eq!(semaphore.down(), 0);
                plain.write();
                assert_eq!(semaphore.up(), Ok(1));
            }
        };
        let others = [0, 1].map(|_| {
            let shared = shared.clone();
            thread::spawn(move || work(&shared))
        });
        work(&shared);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.0.value(), 1);
    });
}

#[test]
fn blocking_threads_exclude_each_other_by_a_semaphore_without_lost_wakeups() {
    take_turns("always-block", 1, 3);
}

#[test]
fn spinning_threads_exclude_each_other_by_a_semaphore_without_lost_wakeups() {
    take_turns("cs", 1, 2);
}

#[test]
fn permits_added_together_or_one_by_one_reach_all_sleepers() {
    for together in [true, false] {
        model(3, move || {
            let semaphore = Arc::new(Semaphore::with(0, by("always-block")));
            let takers = [0, 1].map(|_| {
                let semaphore = semaphore.clone();
                thread::spawn(move || semaphore.down())
            });
            if together {
                assert_eq!(semaphore.up_by(2), Ok(2));
            } else {
                assert_eq!(semaphore.up(), Ok(1));
                assert!((1..=2).contains(&semaphore.up().unwrap()));
            }
            takers.into_iter().for_each(|taker| assert!(taker.join().unwrap() <= 1));
            assert_eq!(semaphore.value(), 0);
        });
    }
}

#[test]
fn two_threads_alternate_by_auto_reset_events() {
    for rule in ["always-block", "cs"] {
        model(3, move || {
            let shared = Arc::new(([0, 1].map(|_| Event::with(Reset::Auto, by(rule))), Plain::default()));
            let other = {
                let shared = shared.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        shared.0[0].wait();
                        shared.1.write();
                        shared.0[1].set();
                    }
                })
            };
            for _ in 0..2 {
                shared.1.write();
                shared.0[0].set();
                shared.0[1].wait();
            }
            other.join().unwrap();
        });
    }
}

#[test]
fn each_set_of_an_auto_reset_event_lets_one_thread_pass() {
    model(3, || {
        let shared = Arc::new((Event::with(Reset::Auto, by("always-block")), Plain::default()));
        let waiters = [0, 1].map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (event, plain) = &*shared;
                event.wait();
                plain.write();
                event.set();
            })
        });
        shared.1.write();
        shared.0.set();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert!(shared.0.reset());
    });
}

#[test]
fn what_was_done_before_a_redundant_set_is_visible() {
    model(3, || {
        let shared = Arc::new((Event::with(Reset::Auto, by("always-block")), AtomicU32::new(0)));
        let setters = [0, 1].map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.fetch_add(1, Relaxed);
                shared.0.set();
            })
        });
        // The last thread sets the event or finds it set. In both cases the thread that passes must
        // see its addition.
        while shared.1.load(Relaxed) < 2 {
            shared.0.wait();
        }
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
}

#[test]
fn all_pass_a_manual_reset_event_that_is_reset_soon() {
    for rule in ["always-block", "cs"] {
        model(2, move || {
            let shared = Arc::new((Event::with(Reset::Manual, by(rule)), Plain::default()));
            let waiters = [0, 1].map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.0.wait();
                    shared.1.read();
                })
            });
            shared.1.write();
            shared.0.set();
            shared.0.reset();
            shared.0.set();
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
    }
}

#[test]
fn all_pass_a_latch_after_its_last_count() {
    for rule in ["always-block", "cs"] {
        model(2, move || {
            let shared = Arc::new((Latch::with(2, by(rule)), [Plain::default(), Plain::default()]));
            let counters = [0, 1].map(|number| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (latch, plain) = &*shared;
                    plain[number].write();
                    latch.arrive_and_wait();
                    plain.iter().for_each(Plain::read);
                })
            });
            shared.0.wait();
            shared.1.iter().for_each(Plain::read);
            counters.into_iter().for_each(|counter| counter.join().unwrap());
        });
    }
}

#[test]
fn a_parked_thread_resumes_for_each_token() {
    for rule in ["always-block", "cs"] {
        model(3, move || {
            let parker = Parker::with(by(rule));
            let done = Arc::new(AtomicU32::new(0));
            let others = [0, 1].map(|_| {
                let (unparker, done) = (parker.unparker(), done.clone());
                thread::spawn(move || {
                    done.fetch_add(1, Relaxed);
                    unparker.unpark();
                })
            });
            while done.load(Relaxed) < 2 {
                parker.park();
            }
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }
}

#[test]
fn all_woken_waiters_see_the_changed_word() {
    use loom::sync::atomic::Ordering::Release;

    for rule in ["always-block", "cs"] {
        model(3, move || {
            let shared = Arc::new((AtomicU32::new(0), Plain::default()));
            let waiters = [0, 1].map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    assert_eq!(word::wait(&shared.0, 0, &by(rule)), 1);
                    shared.1.read();
                })
            });
            shared.1.write();
            shared.0.store(1, Release);
            word::wake_all(&shared.0);
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        });
    }
}

#[test]
fn a_single_waiter_for_a_word_is_woken() {
    model(4, || {
        let word = Arc::new(AtomicU32::new(0));
        let waiter = {
            let word = word.clone();
            thread::spawn(move || word::wait(&word, 0, &by("always-block")))
        };
        word.store(1, Relaxed);
        word::wake_one(&word);
        assert_eq!(waiter.join().unwrap(), 1);
    });
}
