//! Which fiber it is that unwinds.
//!
//! `std::thread::panicking` knows of kernel threads only. A fiber that panics runs the destructors of what it leaves, one of them may wait for something, and as long
//! as it does, *every* fiber of the kernel thread is told that it is panicking. Whoever decides by that (a mutex, whether it is poisoned) asks here instead: fibers
//! that stop while the kernel thread is panicking are counted, and as long as any of them stands still, a panic is taken to be theirs.
//!
//! That is exact as long as at most one fiber of a worker unwinds at a time. Where one panics while another stands still in the middle of unwinding, its own panic
//! is not seen until it has stopped and come back after the other's: a mutex may then not be poisoned that should be. It is never poisoned by a fiber that
//! does not unwind. When a runtime ends many may unwind at a time; so those that were told by it count as unwinding for as long as the kernel thread is panicking.

use std::cell::Cell;

/// Of one worker.
#[derive(Default)]
pub(crate) struct Unwinding {
    /// How many of its fibers stand still in the middle of unwinding.
    stopped: Cell<u32>,
    /// The one that runs was one of them, and the kernel thread has been panicking ever since.
    current: Cell<bool>,
}

impl Unwinding {
    /// Whether it is the fiber that runs that unwinds, where the kernel thread does.
    #[cold]
    pub(crate) fn is_mine(&self) -> bool {
        self.stopped.get() == 0 || self.current.get()
    }

    /// The fiber that runs goes to another, on a kernel thread that is panicking; returns when it goes on.
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
    fn while_one_stands_still_in_the_middle_of_unwinding_nobody_else_is_taken_to_panic() {
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
