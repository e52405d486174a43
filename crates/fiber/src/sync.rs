//! Chooses between real atomics and loom's for what is modelled: a worker's [inbox](crate::inbox).

pub(crate) use self::world::{AtomicPtr, AtomicU64, fence, futex};
pub(crate) use std::sync::atomic::Ordering;

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Locks a mutex that is never locked for long. If this alone locks it, or tries to, nothing ever
/// waits for it in the kernel, or is woken there, so signal handlers may unlock it.
pub(crate) fn lock_by_polling<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => rustix::thread::sched_yield(),
        }
    }
}

#[cfg(not(loom))]
mod world {
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, fence};

    /// Sleeping on the low half of a word.
    pub(crate) mod futex {
        use std::sync::atomic::AtomicU64;
        use std::time::Duration;

        use rustix::time::{ClockId, clock_gettime};
        use sys::futex::Scope;

        /// Sleeps until woken, or for this time, if the word's low half is still `expected`; may
        /// return earlier.
        pub(crate) fn sleep(word: &AtomicU64, expected: u32, time: Option<Duration>) {
            let deadline = time.map(|time| {
                let now = clock_gettime(ClockId::Monotonic);
                // The clock starts at zero.
                Duration::new(now.tv_sec as u64, now.tv_nsec as u32).saturating_add(time)
            });
            sys::futex::wait(word, expected, deadline, Scope::Process);
        }

        /// Wakes the thread that sleeps on the word.
        pub(crate) fn wake(word: &AtomicU64) {
            sys::futex::wake(word, 1, Scope::Process);
        }
    }
}

#[cfg(loom)]
mod world {
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, fence};

    /// The kernel's side: comparing and falling asleep are one step, and so are waking and
    /// everything before it.
    pub(crate) mod futex {
        use std::sync::PoisonError;
        use std::sync::atomic::Ordering::Relaxed;
        use std::time::Duration;

        use loom::sync::{Condvar, Mutex};

        use super::AtomicU64;

        struct Bucket {
            mutex: Mutex<()>,
            sleepers: Condvar,
        }

        loom::lazy_static! {
            /// A model has one worker that sleeps.
            static ref BUCKET: Bucket = Bucket { mutex: Mutex::new(()), sleepers: Condvar::new() };
        }

        /// No time passes during a sleep, so a sleeper that is not woken is a deadlock, which loom
        /// reports.
        pub(crate) fn sleep(word: &AtomicU64, expected: u32, _: Option<Duration>) {
            let bucket = BUCKET.mutex.lock().unwrap_or_else(PoisonError::into_inner);
            if word.load(Relaxed) == u64::from(expected) {
                drop(BUCKET.sleepers.wait(bucket));
            }
        }

        pub(crate) fn wake(_: &AtomicU64) {
            let _bucket = BUCKET.mutex.lock().unwrap_or_else(PoisonError::into_inner);
            BUCKET.sleepers.notify_one();
        }
    }
}
