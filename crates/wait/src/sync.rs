//! The one place that chooses between the machine and loom.
//!
//! Everything that the protocol does to other threads, to the kernel and to the clock goes through here, so that loom
//! can try the very code that runs.

pub(crate) use self::world::*;

/// A constructor that is `const` on the machine: loom's atomics cannot be made by one.
macro_rules! const_fn {
    ($(#[$meta:meta])* $visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$meta])* $visibility const fn $($rest)*
        #[cfg(loom)]
        $(#[$meta])* $visibility fn $($rest)*
    };
}
pub(crate) use const_fn;

#[cfg(not(loom))]
mod world {
    use std::time::Duration;
    pub(crate) use std::{
        hint::spin_loop,
        sync::atomic::{AtomicU32, AtomicU64},
        thread::yield_now,
    };

    use policy::{CpuId, Instant};
    use rustix::time::{ClockId, clock_gettime};
    pub(crate) use sys::futex::Scope;

    /// How often a spinning thread looks between two readings of the clock. A look with its pause takes 10 to 50 ns and a
    /// reading about 20 ns, so the clock takes a tenth of the spinning at the most, and a bound on spinning is kept to
    /// within a microsecond.
    pub(crate) const POLLS: u32 = 16;

    /// `CLOCK_MONOTONIC`.
    pub(crate) fn now() -> Instant {
        let now = clock_gettime(ClockId::Monotonic);
        // The clock starts at zero and stays below 584 years.
        Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    pub(crate) fn current_cpu() -> CpuId {
        CpuId(sys::cpus::current())
    }

    /// A word that threads can sleep on.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct Futex(AtomicU32);

    impl Futex {
        pub(crate) const fn new(word: u32) -> Futex {
            Futex(AtomicU32::new(word))
        }

        /// The word, for all that is not sleeping and waking.
        pub(crate) fn word(&self) -> &AtomicU32 {
            &self.0
        }

        /// Sleeps until woken or to the deadline, if the word still is `expected`; may return at any time before.
        pub(crate) fn sleep(&self, expected: u32, deadline: Option<Instant>, scope: Scope) {
            let deadline = deadline.map(|deadline| Duration::from_nanos(deadline.as_nanos()));
            sys::futex::wait(&self.0, expected, deadline, scope);
        }

        /// Wakes at most so many of those that sleep on the word.
        pub(crate) fn wake(&self, count: u32, scope: Scope) {
            sys::futex::wake(&self.0, count, scope);
        }

        pub(crate) fn wake_all(&self, scope: Scope) {
            self.wake(u32::MAX, scope);
        }
    }
}

#[cfg(loom)]
mod world {
    use std::cell::Cell;
    use std::sync::PoisonError;
    use std::sync::atomic::Ordering;

    use loom::sync::{Condvar, Mutex};
    pub(crate) use loom::{
        hint::spin_loop,
        sync::atomic::{AtomicU32, AtomicU64},
        thread::yield_now,
    };
    use policy::{CpuId, Instant};

    pub(crate) use sys::futex::Scope;

    pub(crate) const POLLS: u32 = 1;

    /// More threads than any model has.
    const MOST_SLEEPERS: u32 = 8;

    loom::thread_local! {
        static READINGS: Cell<u64> = Cell::new(0);
    }

    /// A clock on which a microsecond passes between two readings of one thread.
    pub(crate) fn now() -> Instant {
        READINGS.with(|readings| {
            readings.set(readings.get() + 1);
            Instant::from_nanos(readings.get() * 1_000)
        })
    }

    pub(crate) fn current_cpu() -> CpuId {
        CpuId(0)
    }

    /// The kernel's futex: comparing and falling asleep are one step, as are waking and everything before it.
    #[derive(Debug)]
    pub(crate) struct Futex {
        word: AtomicU32,
        bucket: Mutex<()>,
        sleepers: Condvar,
    }

    impl Futex {
        pub(crate) fn new(word: u32) -> Futex {
            Futex { word: AtomicU32::new(word), bucket: Mutex::new(()), sleepers: Condvar::new() }
        }

        pub(crate) fn word(&self) -> &AtomicU32 {
            &self.word
        }

        /// A deadline never passes while somebody sleeps, so that a sleeper that nobody wakes is a deadlock, which loom reports.
        pub(crate) fn sleep(&self, expected: u32, _: Option<Instant>, _: Scope) {
            let bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            if self.word.load(Ordering::Relaxed) == expected {
                drop(self.sleepers.wait(bucket));
            }
        }

        pub(crate) fn wake(&self, count: u32, _: Scope) {
            let _bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..count.min(MOST_SLEEPERS) {
                self.sleepers.notify_one();
            }
        }

        pub(crate) fn wake_all(&self, scope: Scope) {
            self.wake(u32::MAX, scope);
        }
    }
}
