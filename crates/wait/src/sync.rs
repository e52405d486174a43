//! The one place that chooses between the machine and loom.
//!
//! Everything that the protocol does to other threads, to the kernel and to the clock goes through here, so that loom
//! can try the very code that runs, and tests can script the clock of a thread.

pub(crate) use self::world::*;

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, reason = "a test that cannot go on has failed")]
pub(crate) mod script;

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
    #[cfg(test)]
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;
    pub(crate) use std::{
        hint::spin_loop,
        sync::Arc,
        sync::atomic::{AtomicU32, AtomicU64, fence},
    };

    use policy::{CpuId, Instant};
    use rustix::time::{ClockId, clock_gettime};
    pub(crate) use sys::futex::Scope;

    /// How many turns of the processor's pause a spinning thread lets pass between two readings of the clock, looking
    /// after each or after a few. A turn with its look takes 10 to 50 ns and a reading about 20 ns, so the clock takes a tenth of the spinning at the most, and a bound on spinning is kept to
    /// within a microsecond.
    pub(crate) const POLLS: u32 = 16;

    /// `CLOCK_MONOTONIC`.
    pub(crate) fn now() -> Instant {
        #[cfg(test)]
        if let Some(now) = super::script::now() {
            return now;
        }
        let now = clock_gettime(ClockId::Monotonic);
        // The clock starts at zero and stays below 584 years.
        Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    pub(crate) fn yield_now() {
        #[cfg(test)]
        if super::script::pass(super::script::YIELD) {
            return;
        }
        std::thread::yield_now();
    }

    pub(crate) fn current_cpu() -> CpuId {
        CpuId(sys::cpus::current())
    }

    /// Goes over to another CPU, if the thread may run there.
    pub(crate) fn move_to(cpu: CpuId) {
        // Where it cannot, it stays, and sees that itself.
        let _ = sys::cpus::move_to(cpu.0);
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
            #[cfg(test)]
            if super::script::sleep(|| self.0.load(Relaxed) == expected, deadline) {
                return;
            }
            sys::futex::wait(&self.0, expected, deadline.map(since_zero), scope);
        }

        /// Wakes at most so many of those that sleep on the word.
        pub(crate) fn wake(&self, count: u32, scope: Scope) {
            sys::futex::wake(&self.0, count, scope);
        }

        pub(crate) fn wake_all(&self, scope: Scope) {
            self.wake(u32::MAX, scope);
        }
    }

    /// A word of which threads can sleep on the low half.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct HalfFutex(AtomicU64);

    impl HalfFutex {
        pub(crate) const fn new(word: u64) -> HalfFutex {
            HalfFutex(AtomicU64::new(word))
        }

        /// The word, for all that is not sleeping and waking.
        pub(crate) fn word(&self) -> &AtomicU64 {
            &self.0
        }

        /// As [`Futex::sleep`], if the low half still is `expected`.
        pub(crate) fn sleep(&self, expected: u32, deadline: Option<Instant>, scope: Scope) {
            #[cfg(test)]
            if super::script::sleep(|| self.0.load(Relaxed) as u32 == expected, deadline) {
                return;
            }
            sys::futex_u64::wait(&self.0, expected, deadline.map(since_zero), scope);
        }

        /// Wakes at most so many of those that sleep on the low half.
        pub(crate) fn wake(&self, count: u32, scope: Scope) {
            sys::futex_u64::wake(&self.0, count, scope);
        }
    }

    /// As [`Futex::sleep`], on a word of whoever calls.
    pub(crate) fn sleep_on(word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        #[cfg(test)]
        if super::script::sleep(|| word.load(Relaxed) == expected, deadline) {
            return;
        }
        sys::futex::wait(word, expected, deadline.map(since_zero), Scope::Process);
    }

    /// As [`Futex::wake`], on a word of whoever calls.
    pub(crate) fn wake_on(word: &AtomicU32, count: u32) {
        sys::futex::wake(word, count, Scope::Process);
    }

    fn since_zero(deadline: Instant) -> Duration {
        Duration::from_nanos(deadline.as_nanos())
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
        sync::Arc,
        sync::atomic::{AtomicU32, AtomicU64, fence},
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

    pub(crate) fn move_to(_: CpuId) {}

    /// The kernel's side of a futex: comparing and falling asleep are one step, as are waking and everything before it.
    #[derive(Debug)]
    struct Bucket {
        mutex: Mutex<()>,
        sleepers: Condvar,
    }

    impl Bucket {
        fn new() -> Bucket {
            Bucket { mutex: Mutex::new(()), sleepers: Condvar::new() }
        }

        /// There is no deadline: none passes while somebody sleeps, so that a sleeper that nobody wakes is a deadlock, which
        /// loom reports.
        fn sleep_if(&self, is_as_expected: impl FnOnce() -> bool) {
            let bucket = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
            if is_as_expected() {
                drop(self.sleepers.wait(bucket));
            }
        }

        fn wake(&self, count: u32) {
            let _bucket = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..count.min(MOST_SLEEPERS) {
                self.sleepers.notify_one();
            }
        }
    }

    #[derive(Debug)]
    pub(crate) struct Futex {
        word: AtomicU32,
        bucket: Bucket,
    }

    impl Futex {
        pub(crate) fn new(word: u32) -> Futex {
            Futex { word: AtomicU32::new(word), bucket: Bucket::new() }
        }

        pub(crate) fn word(&self) -> &AtomicU32 {
            &self.word
        }

        pub(crate) fn sleep(&self, expected: u32, _: Option<Instant>, _: Scope) {
            self.bucket.sleep_if(|| self.word.load(Ordering::Relaxed) == expected);
        }

        pub(crate) fn wake(&self, count: u32, _: Scope) {
            self.bucket.wake(count);
        }

        pub(crate) fn wake_all(&self, scope: Scope) {
            self.wake(u32::MAX, scope);
        }
    }

    #[derive(Debug)]
    pub(crate) struct HalfFutex {
        word: AtomicU64,
        bucket: Bucket,
    }

    impl HalfFutex {
        pub(crate) fn new(word: u64) -> HalfFutex {
            HalfFutex { word: AtomicU64::new(word), bucket: Bucket::new() }
        }

        pub(crate) fn word(&self) -> &AtomicU64 {
            &self.word
        }

        pub(crate) fn sleep(&self, expected: u32, _: Option<Instant>, _: Scope) {
            self.bucket.sleep_if(|| self.word.load(Ordering::Relaxed) as u32 == expected);
        }

        pub(crate) fn wake(&self, count: u32, _: Scope) {
            self.bucket.wake(count);
        }
    }

    loom::lazy_static! {
        /// For words of whoever calls; a model has one of them.
        static ref BUCKET: Bucket = Bucket::new();
    }

    pub(crate) fn sleep_on(word: &AtomicU32, expected: u32, _: Option<Instant>) {
        BUCKET.sleep_if(|| word.load(Ordering::Relaxed) == expected);
    }

    pub(crate) fn wake_on(_: &AtomicU32, count: u32) {
        BUCKET.wake(count);
    }
}
