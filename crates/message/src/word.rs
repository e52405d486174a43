//! The words of shared memory, as the protocols use them, on the machine and in their models.

use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use policy::Instant;
use sys::futex::{self, Scope};

/// A word of memory that several processes or threads share.
pub(crate) trait Word {
    /// Its value, without an order of other accesses.
    fn get(&self) -> u64;
    /// Sets its value, without an order of other accesses.
    fn set(&self, value: u64);
    /// Sets its value after all earlier accesses.
    fn release(&self, value: u64);
    /// Its value. Later accesses see at least what its writer saw. After [`Word::publish`] or
    /// [`Word::mark`] of this thread it is at least what another one has published or marked before
    /// it did not see that.
    fn observe(&self) -> u64;
    /// Sets its value after all earlier accesses, and before all later ones.
    fn publish(&self, value: u64);
    /// Sets these bits, as [`Word::publish`] does. Returns the value before.
    fn mark(&self, bits: u64) -> u64;
    /// Sets its value if it is `from`, as [`Word::publish`] does. Returns whether it was.
    fn replace(&self, from: u64, to: u64) -> bool;
    /// Blocks until woken, if the low half of the word still has this value, or until the deadline.
    /// May return early.
    fn sleep(&self, value: u64, deadline: Option<Instant>);
    /// Wakes all that sleep.
    fn wake(&self);
}

impl Word for AtomicU64 {
    #[inline]
    fn get(&self) -> u64 {
        self.load(Relaxed)
    }

    #[inline]
    fn set(&self, value: u64) {
        self.store(value, Relaxed);
    }

    #[inline]
    fn release(&self, value: u64) {
        self.store(value, Release);
    }

    #[inline]
    fn observe(&self) -> u64 {
        self.load(SeqCst)
    }

    #[inline]
    fn publish(&self, value: u64) {
        // Not one exchange: that would fetch the line, which a receiver polls, once more.
        self.store(value, Release);
        fence(SeqCst);
    }

    fn mark(&self, bits: u64) -> u64 {
        let before = self.fetch_or(bits, SeqCst);
        fence(SeqCst);
        before
    }

    fn replace(&self, from: u64, to: u64) -> bool {
        self.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    fn sleep(&self, value: u64, deadline: Option<Instant>) {
        let deadline = deadline.map(|deadline| Duration::from_nanos(deadline.as_nanos()));
        futex::wait(self, value as u32, deadline, Scope::Shared);
    }

    fn wake(&self) {
        futex::wake(self, u32::MAX, Scope::Shared);
    }
}
