//! Panics: their count, hooks, and panics in the middle of panics.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::panicking;

use ways::{switch, together, until};

/// Calls a function when it is dropped.
struct AtDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The payload of a panic that this raises, with a hook, and catches.
fn caught(number: usize, at_drop: impl FnMut()) -> usize {
    let panics = move || {
        let _at_drop = AtDrop(at_drop);
        std::panic::panic_any(number);
    };
    *catch_unwind(AssertUnwindSafe(panics)).unwrap_err().downcast::<usize>().unwrap()
}

/// Runs a program with a hook.
fn with_hook<T>(hook: fn(), program: impl FnOnce() -> T) -> T {
    drop(take_hook());
    set_hook(Box::new(move |_| hook()));
    let result = program();
    drop(take_hook());
    result
}

fn only_the_strand_that_panics_is_panicking() -> Vec<bool> {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    SEEN.store(0, SeqCst);
    with_hook(
        || (),
        || {
            together(3, |who| {
                if who == 0 {
                    let mut during = false;
                    let caught = caught(0, || {
                        until(|| SEEN.load(SeqCst) >= 2);
                        during = panicking();
                    });
                    return during && caught == 0 && !panicking();
                }
                let others = (0..10).all(|_| {
                    switch();
                    !panicking()
                });
                SEEN.fetch_add(1, SeqCst);
                others
            })
        },
    )
}

fn strands_may_panic_at_the_same_time() -> Vec<usize> {
    with_hook(|| (), || together(4, |who| (0..5).map(|round| caught(who * round, switch)).sum()))
}

fn a_hook_may_switch() -> Vec<usize> {
    with_hook(switch, || together(4, |who| (0..5).map(|round| caught(who * round, switch)).sum()))
}

fn a_panic_in_a_destructor_is_caught_there() -> Vec<usize> {
    with_hook(switch, || {
        together(3, |who| {
            let mut inner = 0;
            let outer = caught(who, || inner = caught(10 + who, switch));
            outer * 100 + inner
        })
    })
}

fn a_mutex_is_poisoned_by_its_own_strand_only() -> Vec<bool> {
    with_hook(
        || (),
        || {
            together(3, |who| {
                let mutex = Mutex::new(0);
                caught(who, || {
                    switch();
                    // A guard that is made while its strand panics poisons nothing.
                    drop(mutex.lock());
                    switch();
                });
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    let _guard = mutex.lock();
                    if who == 1 {
                        switch();
                        std::panic::panic_any(0_usize);
                    }
                    switch();
                }));
                unwound.is_err() == mutex.is_poisoned() && (who == 1) == mutex.is_poisoned()
            })
        },
    )
}

/// A hook is changed while another strand is in it: this waits in the kernel.
fn a_hook_may_be_changed_while_strands_panic() -> Vec<usize> {
    with_hook(switch, || {
        together(3, |who| {
            if who == 0 {
                for _ in 0..5 {
                    set_hook(Box::new(|_| switch()));
                    switch();
                }
                return 0;
            }
            (0..5).map(|round| caught(who * round, switch)).sum()
        })
    })
}

mod switching {
    use super::*;
    ways::in_every_way! {
        only_the_strand_that_panics_is_panicking
        strands_may_panic_at_the_same_time
        a_hook_may_switch
        a_panic_in_a_destructor_is_caught_there
        a_mutex_is_poisoned_by_its_own_strand_only
    }
}

mod waiting {
    use super::*;
    ways::in_every_way! {
        a_hook_may_be_changed_while_strands_panic
    }
}
