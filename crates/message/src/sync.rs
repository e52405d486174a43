//! The choice between the machine and loom.
//!
//! All effects of the lock-free protocols on other threads and the kernel go through this module,
//! so that loom runs the same code.

pub(crate) use self::world::*;

#[cfg(not(loom))]
mod world {
    pub(crate) use std::sync::atomic::{AtomicU64, fence};
    use std::time::Duration;

    use policy::Instant;
    use sys::futex::{self, Scope};
    pub(crate) use sys::words;

    /// Sleeps until woken or the deadline if the low half of the word is that of `expected`. May
    /// return early.
    pub(crate) fn sleep_on(word: &AtomicU64, expected: u64, deadline: Option<Instant>) {
        let deadline = deadline.map(|deadline| Duration::from_nanos(deadline.as_nanos()));
        futex::wait(word, expected as u32, deadline, Scope::Shared);
    }

    /// Wakes all that sleep on the word.
    pub(crate) fn wake_on(word: &AtomicU64) {
        futex::wake(word, u32::MAX, Scope::Shared);
    }
}

#[cfg(loom)]
mod world {
    use std::sync::PoisonError;
    use std::sync::atomic::Ordering::Relaxed;

    pub(crate) use loom::sync::atomic::{AtomicU64, fence};
    use loom::sync::{Condvar, Mutex};
    use policy::Instant;

    loom::lazy_static! {
        /// The kernel's side of all futexes: comparing and falling asleep are one step, and so is
        /// waking. A wake for another word is a spurious one.
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// A sleeper that is not woken is a deadlock, which loom reports. There are no deadlines.
    pub(crate) fn sleep_on(word: &AtomicU64, expected: u64, _: Option<Instant>) {
        let bucket = SLEEPERS.0.lock().unwrap_or_else(PoisonError::into_inner);
        if word.load(Relaxed) == expected {
            drop(SLEEPERS.1.wait(bucket));
        }
    }

    pub(crate) mod words {
        use super::{AtomicU64, Relaxed};

        pub(crate) fn load(from: &[AtomicU64], to: &mut [[u8; 8]]) {
            from.iter().zip(to).for_each(|(from, to)| *to = from.load(Relaxed).to_ne_bytes());
        }

        pub(crate) fn store(to: &[AtomicU64], from: &[[u8; 8]]) {
            to.iter().zip(from).for_each(|(to, &from)| to.store(u64::from_ne_bytes(from), Relaxed));
        }
    }

    pub(crate) fn wake_on(_: &AtomicU64) {
        let _bucket = SLEEPERS.0.lock().unwrap_or_else(PoisonError::into_inner);
        SLEEPERS.1.notify_all();
    }
}
