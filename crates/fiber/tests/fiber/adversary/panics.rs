//! Panics: their count, what is dropped and when, hooks, and poison.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex};
use std::thread::panicking;

use crate::adversary::case::{alone, hazard};

thread_local! {
    /// How many panics a hook has been called for.
    static HEARD: Cell<u64> = const { Cell::new(0) };
}

/// Records that it was dropped, and whether during a panic.
struct Noted<'a>(&'a RefCell<Vec<(u64, bool)>>, u64);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        drop(std::hint::black_box(vec![self.1; 10]));
        self.0.borrow_mut().push((self.1, panicking()));
    }
}

/// Panics at this depth of recursion.
#[inline(never)]
fn panics(notes: &RefCell<Vec<(u64, bool)>>, who: u64, depth: u64) {
    let _noted = Noted(notes, depth);
    if depth == 0 {
        std::panic::panic_any(who);
    }
    panics(notes, who, depth - 1);
}

fn listens() {
    drop(take_hook());
    set_hook(Box::new(|info| {
        HEARD.set(HEARD.get() + 1);
        drop(std::hint::black_box(info.to_string()));
    }));
}

#[test]
fn a_panic_drops_values_in_order() {
    alone(|| {
        listens();
        hazard(|who, round| {
            let (notes, heard, depth) = (RefCell::default(), HEARD.get(), round % 9);
            assert!(!panicking());
            let payload = catch_unwind(AssertUnwindSafe(|| panics(&notes, who, depth))).unwrap_err();
            assert_eq!(*payload.downcast::<u64>().unwrap(), who);
            assert_eq!(notes.into_inner(), (0..=depth).map(|each| (each, true)).collect::<Vec<_>>());
            assert_eq!((panicking(), HEARD.get()), (false, heard + 1));
        });
        drop(take_hook());
    });
}

/// Catches a panic in the middle of another.
struct Catches(u64);

impl Drop for Catches {
    fn drop(&mut self) {
        let notes = RefCell::default();
        let payload = catch_unwind(AssertUnwindSafe(|| panics(&notes, self.0 + 1, 3))).unwrap_err();
        assert_eq!(*payload.downcast::<u64>().unwrap(), self.0 + 1);
        assert_eq!(notes.borrow().len(), 4);
        assert!(panicking(), "of the outer panic");
    }
}

/// Panics when it is dropped, outside of a panic.
struct Fails(u64);

impl Drop for Fails {
    fn drop(&mut self) {
        resume_unwind(Box::new(self.0));
    }
}

#[test]
fn a_panic_within_a_panic_is_caught_there() {
    alone(|| {
        listens();
        hazard(|who, _| {
            let outer = catch_unwind(|| {
                let _catches = Catches(who);
                std::panic::panic_any(who);
            });
            assert_eq!(*outer.unwrap_err().downcast::<u64>().unwrap(), who);
            let dropped = catch_unwind(|| drop(Fails(who)));
            assert_eq!(*dropped.unwrap_err().downcast::<u64>().unwrap(), who);
            let nested = catch_unwind(|| catch_unwind(|| resume_unwind(Box::new(who))).map_err(resume_unwind));
            assert!(nested.is_err() && !panicking());
        });
        drop(take_hook());
    });
}

#[test]
fn a_lock_is_poisoned_only_by_the_fiber_that_panics_with_it() {
    alone(|| {
        let all: Arc<Vec<Mutex<u64>>> = Arc::new((0..4).map(|_| Mutex::new(0)).collect());
        hazard(move |who, round| {
            // Even ones never panic with it, and odd ones always do.
            let mutex = &all[(round % 4) as usize];
            if round % 2 == 0 {
                let mut guard = mutex.lock().expect("no fiber has panicked with it");
                *guard += 1;
                drop(std::hint::black_box(vec![who; 10]));
            } else {
                let panicked = catch_unwind(|| {
                    let _guard = mutex.lock();
                    resume_unwind(Box::new(who));
                });
                assert_eq!(*panicked.unwrap_err().downcast::<u64>().unwrap(), who);
                assert!(mutex.is_poisoned());
            }
        });
    });
}

#[test]
fn a_fiber_that_panics_tells_its_joiner() {
    alone(|| {
        listens();
        crate::adversary::case::hasty(1)
            .run(|| {
                for round in 0..300_u64 {
                    let fibers: Vec<_> = (0..4)
                        .map(|who| {
                            rowlock_fiber::spawn(move || {
                                let notes = RefCell::default();
                                panics(&notes, who + round, 20);
                            })
                        })
                        .collect();
                    for (who, fiber) in (0..).zip(fibers) {
                        match fiber.join() {
                            Err(rowlock_fiber::JoinError::Panicked(payload)) => {
                                assert_eq!(*payload.downcast::<u64>().unwrap(), who + round);
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
            })
            .unwrap();
    });
}
