//! How fibers start and end.

use crate::at_drop::AtDrop;
use crate::calm;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use policy::Span;
use policy::feedback::FeedbackRules;
use rowlock_fiber as fiber;
use rowlock_fiber::{Config, JoinError, RunError, Runtime, ScriptedClock};

#[test]
fn join_returns_a_result() {
    assert_eq!(calm::run(|| fiber::spawn(|| 6 * 7).join().unwrap()), 42);
    let large = calm::run(|| fiber::spawn(|| [7u64; 100]).join().unwrap());
    assert_eq!(large, [7; 100]);
}

#[test]
fn a_panic_stays_in_its_fiber_and_join_returns_it() {
    calm::run(|| {
        let error = fiber::spawn(|| -> u32 { panic!("on purpose") }).join().unwrap_err();
        assert_eq!(error.to_string(), "the fiber panicked: on purpose");
        assert!(matches!(fiber::spawn(|| fiber::exit()).join(), Err::<(), _>(JoinError::Exited)));
    });
}

#[test]
fn a_panic_in_the_destructor_of_a_local_is_the_outcome_of_a_fiber_that_returned() {
    let dropped = Arc::new(AtomicUsize::new(0));
    calm::run(|| {
        let theirs = Arc::clone(&dropped);
        let fiber = fiber::spawn(move || {
            let _first = AtDrop(|| theirs.store(1, Relaxed));
            let _second = AtDrop(|| panic!("at the end"));
            42
        });
        assert_eq!(fiber.join().unwrap_err().to_string(), "the fiber panicked: at the end");
        assert_eq!(dropped.load(Relaxed), 1);
        // Other fibers continue, perhaps on the same stack.
        assert_eq!(fiber::spawn(|| 6 * 7).join().unwrap(), 42);
    });
}

#[test]
fn a_destructor_can_spawn_and_join_fibers_even_in_a_panic() {
    calm::run(|| {
        for panics in [false, true] {
            let sum = Arc::new(fiber::Mutex::new(0));
            let theirs = Arc::clone(&sum);
            let outcome = fiber::spawn(move || {
                let _adds = AtDrop(|| {
                    let fibers: Vec<_> = (1..=3)
                        .map(|i| {
                            let sum = Arc::clone(&theirs);
                            fiber::spawn(move || {
                                let mut sum = sum.lock();
                                fiber::yield_now();
                                *sum += i;
                            })
                        })
                        .collect();
                    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
                });
                assert!(!panics, "on purpose");
            });
            assert_eq!(outcome.join().is_err(), panics);
            // It is not poisoned, either: these fibers did not panic.
            assert_eq!(*sum.lock(), 6);
        }
    });
}

#[test]
fn fibers_of_one_level_take_turns() {
    let order = calm::run(|| {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let fibers: Vec<_> = (0..3)
            .map(|i| {
                let order = Arc::clone(&order);
                fiber::spawn(move || {
                    for _ in 0..2 {
                        order.lock().unwrap().push(i);
                        fiber::yield_now();
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        Arc::into_inner(order).unwrap().into_inner().unwrap()
    });
    assert_eq!(order, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn remaining_fibers_end_with_their_runtime_and_drop_what_they_own() {
    let dropped = Arc::new(AtomicUsize::new(0));
    calm::run(|| {
        for i in 0..30 {
            let dropped = Arc::clone(&dropped);
            let thing = AtDrop(move || _ = dropped.fetch_add(1, Relaxed));
            fiber::spawn(move || {
                let _thing = thing;
                match i % 3 {
                    0 => fiber::sleep(Duration::from_secs(1000)),
                    1 => loop {
                        fiber::yield_now();
                    },
                    _ => fiber::spawn(|| fiber::sleep(Duration::from_secs(1000))).join().unwrap(),
                }
            })
            .detach();
            if i == 20 {
                (0..5).for_each(|_| fiber::yield_now());
            }
        }
    });
    assert_eq!(dropped.load(Relaxed), 30);
}

#[test]
fn a_scope_waits_for_its_fibers_even_if_the_runtime_ends() {
    let ended = AtomicUsize::new(0);
    calm::run(|| {
        let ended = &ended;
        let inner = move || {
            let mut local = 0;
            fiber::scope(|scope| {
                scope.spawn(|| {
                    fiber::yield_now();
                    local += 1;
                });
            });
            assert_eq!(local, 1);
        };
        inner();
        fiber::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    ended.fetch_add(1, Relaxed);
                });
            }
        });
        let panicked = catch_unwind(AssertUnwindSafe(|| fiber::scope(|scope| drop(scope.spawn(|| panic!("here"))))));
        assert!(panicked.is_err());
        fiber::spawn(|| {
            let alive = Cell::new(true);
            let _ends = AtDrop(|| alive.set(false));
            let seen = std::sync::atomic::AtomicBool::new(true);
            fiber::scope(|scope| {
                scope.spawn(|| {
                    let seen = &seen;
                    fiber::sleep(Duration::from_secs(1000));
                    seen.store(false, Relaxed);
                });
            });
        })
        .detach();
        fiber::yield_now();
        fiber::yield_now();
    });
    assert_eq!(ended.load(Relaxed), 3);
}

/// Counts itself as long as it exists.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, Relaxed);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_fiber_that_unwinds_while_it_spawns_another_leaves_no_result_behind() {
    let count = Arc::new(AtomicUsize::new(0));
    // A fiber that spawns another one lets others run then.
    let rules = FeedbackRules { running_time: Span::from_nanos(1), ..FeedbackRules::default() };
    for _ in 0..20 {
        let there = Arc::clone(&count);
        let maker = move || {
            loop {
                let count = Arc::clone(&there);
                fiber::spawn(move || Counted::new(&count)).detach();
            }
        };
        let first = || {
            fiber::spawn(maker).detach();
            (0..20).for_each(|_| fiber::yield_now());
        };
        Runtime::new(Config { rules, ..Config::default() }).run(first).unwrap();
        assert_eq!(count.load(Relaxed), 0);
    }
}

#[test]
fn an_unseen_panic_is_reported_wherever_its_handle_is_dropped() {
    let scope = || {
        fiber::scope(|scope| {
            let handle = scope.spawn(|| -> u32 { panic!("unseen") });
            while !handle.is_finished() {
                fiber::yield_now();
            }
            std::thread::scope(|threads| threads.spawn(|| drop(handle)).join()).unwrap();
        });
    };
    let payload = catch_unwind(|| fiber::run(scope)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"a fiber of a scope panicked"));
}

#[test]
fn a_fiber_that_joins_itself_or_a_cycle_gets_an_error() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let _ = (RefCell::new(0), Rc::new(0));
    calm::run(|| {
        let slot = Arc::new(std::sync::Mutex::new(None::<fiber::JoinHandle<bool>>));
        let own = Arc::clone(&slot);
        let handle = fiber::spawn(move || {
            let me = own.lock().unwrap().take().unwrap();
            matches!(me.join(), Err(JoinError::Itself))
        });
        *slot.lock().unwrap() = Some(handle);
        while slot.lock().unwrap().is_some() {
            fiber::yield_now();
        }
        let slots = Arc::new(std::sync::Mutex::new([None::<fiber::JoinHandle<()>>, None]));
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        for i in 0..2 {
            let (others, told) = (Arc::clone(&slots), Arc::clone(&told));
            let join = move || {
                let other = others.lock().unwrap()[1 - i].take().unwrap();
                let error = other.join().err().map(|error| error.to_string());
                told.lock().unwrap().push((i, error));
            };
            slots.lock().unwrap()[i] = Some(fiber::Builder::new().name(format!("f{i}")).spawn(join).unwrap());
        }
        while told.lock().unwrap().len() < 2 {
            fiber::yield_now();
        }
        // The fiber that would have closed the circle gets an error, and so the other one gets the
        // end for which it waits.
        let told = told.lock().unwrap();
        let [(1, Some(error)), (0, None)] = &told[..] else { panic!("{told:?}") };
        assert!(error.contains("`f1`, which waits for fiber") && error.ends_with("`f1`"), "{error}");
    });
}

#[test]
fn fibers_that_wait_forever_are_a_deadlock() {
    let run = calm::closed_runtime().run(|| {
        let slot = Arc::new(std::sync::Mutex::new(None::<fiber::JoinHandle<()>>));
        let inner = Arc::clone(&slot);
        let outer = fiber::spawn(move || {
            fiber::scope(|scope| {
                scope.spawn(|| {
                    fiber::yield_now();
                    let outer = inner.lock().unwrap().take().unwrap();
                    outer.join().unwrap();
                });
            });
        });
        *slot.lock().unwrap() = Some(outer);
        drop(fiber::Semaphore::new(0).acquire());
    });
    let Err(RunError::Deadlock(deadlock)) = run else { panic!("{run:?}") };
    assert!(deadlock.cycles.is_empty() && deadlock.others.len() == 3, "{deadlock}");
}

#[test]
fn a_million_fibers_are_spawned_and_joined_one_after_the_other() {
    let sum = calm::run(|| (0..1_000_000u64).map(|i| fiber::spawn(move || i).join().unwrap()).sum::<u64>());
    assert_eq!(sum, 499_999_500_000);
}

#[test]
fn a_sleeper_whose_time_comes_while_its_runtime_ends_is_woken_once() {
    let clock = ScriptedClock::new();
    let run = Runtime::new(Config { clock: Some(clock.clone()), ..Config::default() }).run(|| {
        for _ in 0..4 {
            let theirs = clock.clone();
            let sleeps = move || {
                // The others' time comes while one unwinds.
                let _takes_time = AtDrop(|| theirs.advance(Duration::from_millis(5)));
                fiber::sleep(Duration::from_millis(3));
            };
            fiber::spawn(sleeps).detach();
        }
        fiber::yield_now();
    });
    assert!(run.is_ok());
    // Each has ended once.
    assert_eq!(clock.elapsed(), Duration::from_millis(20));
}
