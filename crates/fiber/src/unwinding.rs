//! Finds the fiber that unwinds.
//!
//! `std::thread::panicking` knows only kernel threads. A fiber that panics runs destructors, and
//! one of them may wait. As long as it does, *every* fiber of the kernel thread is told that it is
//! panicking. Code that depends on this (a mutex, whether it is poisoned) asks here instead. Fibers
//! that stop while the kernel thread is panicking are counted, and as long as any of them is
//! stopped, a panic is taken to be theirs.
//!
//! That is exact as long as at most one fiber of a worker unwinds at a time. If a fiber panics
//! while another one is stopped during its unwinding, its own panic is not seen until it has
//! stopped itself and continued after the other's: a mutex may then not be poisoned although it
//! should be. A fiber that does not unwind never poisons one. When a runtime ends, many fibers may
//! unwind at a time; so those that it has cancelled count as unwinding as long as the kernel thread
//! is panicking.

use std::cell::Cell;

/// The unwinding fibers of one worker.
#[derive(Default)]
pub(crate) struct Unwinding {
    /// How many of its fibers are stopped while they unwind.
    stopped: Cell<u32>,
    /// The running fiber was one of them, and the kernel thread has been panicking ever since.
    current: Cell<bool>,
}

impl Unwinding {
    /// Whether the running fiber is the one that unwinds, given that the kernel thread is
    /// panicking.
    #[cold]
    pub(crate) fn is_mine(&self) -> bool {
        self.stopped.get() == 0 || self.current.get()
    }

    /// Switches from the running fiber to another, on a kernel thread that is panicking. Returns
    /// when it continues.
    #[cold]
    pub(crate) fn stop(&self, switch: impl FnOnce()) {
        let mine = self.is_mine();
        self.stopped.set(self.stopped.get() + u32::from(mine));
        self.current.set(false);
        switch();
        self.stopped.set(self.stopped.get() - u32::from(mine));
        self.current.set(mine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct AtDrop<F: FnMut()>(F);

    impl Unwinding {
        fn is_panicking(&self) -> bool {
            std::thread::panicking() && self.is_mine()
        }
    }

    impl<F: FnMut()> Drop for AtDrop<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }

    #[test]
    fn while_a_fiber_is_stopped_during_unwinding_no_other_counts_as_panicking() {
        let unwinding = Unwinding::default();
        assert!(!unwinding.is_panicking());
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _at_drop = AtDrop(|| {
                assert!(unwinding.is_panicking(), "the one that panics");
                unwinding.stop(|| {
                    assert!(!unwinding.is_panicking(), "another");
                    unwinding.stop(|| assert!(!unwinding.is_panicking(), "a third"));
                    assert!(!unwinding.is_panicking(), "the other again");
                });
                assert!(unwinding.is_panicking(), "the one that panics again");
            });
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(!unwinding.is_panicking());
    }
}
