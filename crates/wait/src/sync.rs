//! The choice between the machine and loom.
//!
//! All effects of the protocols on other threads, the kernel and the clock go through this module.
//! So loom can run the same code, and tests can script the clock of a thread.

pub use self::world::now;
pub(crate) use self::world::*;

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, reason = "a test that cannot continue has failed")]
pub(crate) mod script;

/// Constructors that are `const` except under loom, whose atomics have no `const` constructor.
macro_rules! const_fn {
    ($($(#[$meta:meta])* $visibility:vis fn $name:ident $arguments:tt -> $result:ty $body:block)*) => {$(
        #[cfg(not(loom))]
        $(#[$meta])* $visibility const fn $name $arguments -> $result $body
        #[cfg(loom)]
        $(#[$meta])* $visibility fn $name $arguments -> $result $body
    )*};
}
pub(crate) use const_fn;

#[cfg(not(loom))]
mod world {
    use std::time::Duration;
    pub(crate) use std::{
        hint::spin_loop,
        sync::Arc,
        sync::atomic::{AtomicU32, AtomicU64, fence},
    };

    use policy::{CpuId, Instant};
    use rustix::time::{ClockId, clock_gettime};
    use sys::futex::FutexWord;
    pub(crate) use sys::futex::Scope;
    pub(crate) use sys::shared_memory::ReadOnlyWords;
    use sys::shared_memory::{Mapping, View};
    use sys::thread_clock::ThreadClock;

    /// Words that other processes read.
    pub(crate) type WrittenWords = View<[AtomicU64]>;

    /// The first words of a mapping. `None` if it is shorter.
    pub(crate) fn written_words(mapping: &Arc<Mapping>, count: usize) -> Option<WrittenWords> {
        mapping.slice(0, count)
    }

    /// The number of processor pauses of a spinning thread between two clock readings. It polls
    /// after each pause or after a few. A pause with its poll takes 10 to 50 ns and a reading about
    /// 20 ns. So reading takes at most a tenth of the spin, and the budget is exact to within 1 us.
    pub(crate) const POLLS: u32 = 16;

    /// The time on `CLOCK_MONOTONIC`, to which deadlines and turns refer: the same for all
    /// processes, and no change of the time of day affects it.
    pub fn now() -> Instant {
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

    /// The number of the calling thread's CPU clock, for [`is_running`]. Zero if it is unknown.
    #[inline]
    pub(crate) fn own_clock() -> u32 {
        ThreadClock::own().map_or(0, |clock| clock.number().cast_unsigned())
    }

    /// Whether the thread with this clock runs. `None` if that is unknown.
    pub(crate) fn is_running(clock: u32) -> Option<bool> {
        ThreadClock::from_number(clock.cast_signed())?.is_running()
    }

    /// Migrates the thread to another CPU, if it may run there.
    pub(crate) fn move_to(cpu: CpuId) {
        // If this fails, the thread stays where it is, and sees that itself.
        let _ = sys::cpus::move_to(cpu.0);
    }

    /// A word on which threads can sleep.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct Futex<W = AtomicU32>(W);

    impl<W: FutexWord> Futex<W> {
        pub(crate) const fn new(word: W) -> Futex<W> {
            Futex(word)
        }

        /// The word, for all purposes except sleeping and waking.
        pub(crate) fn word(&self) -> &W {
            &self.0
        }

        /// Sleeps until woken or the deadline if the low half is `expected`. May return early.
        pub(crate) fn sleep(&self, expected: u32, deadline: Option<Instant>, scope: Scope) {
            sleep_on(&self.0, expected, deadline, scope);
        }

        /// Wakes at most `count` of the sleepers.
        pub(crate) fn wake(&self, count: u32, scope: Scope) {
            wake_on(&self.0, count, scope);
        }
    }

    /// An array of zeros.
    pub(crate) const fn zeros<const N: usize>() -> [AtomicU64; N] {
        [const { AtomicU64::new(0) }; N]
    }

    /// Like [`Futex::sleep`], on a word of the caller.
    pub(crate) fn sleep_on(word: &impl FutexWord, expected: u32, deadline: Option<Instant>, scope: Scope) {
        #[cfg(test)]
        if super::script::sleep(|| word.value() == expected, deadline) {
            return;
        }
        sys::futex::wait(word, expected, deadline.map(|deadline| Duration::from_nanos(deadline.as_nanos())), scope);
    }

    /// Like [`Futex::wake`], on a word of the caller.
    pub(crate) fn wake_on(word: &impl FutexWord, count: u32, scope: Scope) {
        sys::futex::wake(word, count, scope);
    }
}

#[cfg(loom)]
mod world {
    use std::cell::Cell;
    use std::fs::File;
    use std::io;
    use std::sync::PoisonError;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};
    pub(crate) use loom::{
        hint::spin_loop,
        sync::Arc,
        sync::atomic::{AtomicU32, AtomicU64, fence},
        thread::yield_now,
    };
    use policy::{CpuId, Instant};
    pub(crate) use sys::futex::Scope;
    use sys::shared_memory::Mapping;

    pub(crate) const POLLS: u32 = 1;

    /// More threads than any model has.
    const MOST_SLEEPERS: u32 = 8;

    loom::thread_local! {
        static READINGS: Cell<u64> = Cell::new(0);
    }

    /// A clock on which a microsecond passes between two readings of one thread.
    pub fn now() -> Instant {
        READINGS.with(|readings| readings.set(readings.get() + 1));
        last_reading()
    }

    fn last_reading() -> Instant {
        READINGS.with(|readings| Instant::from_nanos(readings.get() * 1_000))
    }

    pub(crate) fn current_cpu() -> CpuId {
        CpuId(0)
    }

    pub(crate) fn own_clock() -> u32 {
        1
    }

    /// A check takes time, in which the others go on.
    pub(crate) fn is_running(_: u32) -> Option<bool> {
        Some(now().as_nanos() / 1_000 % 2 == 0)
    }

    pub(crate) fn move_to(_: CpuId) {}

    /// The kernel's side of a futex: comparing and falling asleep are one step, and so is waking.
    #[derive(Debug)]
    struct Bucket {
        mutex: Mutex<()>,
        sleepers: Condvar,
    }

    impl Bucket {
        fn new() -> Bucket {
            Bucket { mutex: Mutex::new(()), sleepers: Condvar::new() }
        }

        /// Returns if the deadline has passed. Otherwise ignores it, so loom reports a sleeper that
        /// is never woken as a deadlock.
        fn sleep_if(&self, is_as_expected: impl FnOnce() -> bool, deadline: Option<Instant>) {
            let bucket = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
            if is_as_expected() && deadline.is_none_or(|deadline| last_reading() < deadline) {
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

    /// A word on whose low half, or on all of which, threads can sleep.
    pub(crate) trait FutexWord {
        /// The part that the kernel compares.
        fn value(&self) -> u32;
    }

    impl FutexWord for AtomicU32 {
        fn value(&self) -> u32 {
            self.load(Relaxed)
        }
    }

    impl FutexWord for AtomicU64 {
        fn value(&self) -> u32 {
            self.load(Relaxed) as u32
        }
    }

    #[derive(Debug)]
    pub(crate) struct Futex<W = AtomicU32> {
        word: W,
        bucket: Bucket,
    }

    impl<W: FutexWord> Futex<W> {
        pub(crate) fn new(word: W) -> Futex<W> {
            Futex { word, bucket: Bucket::new() }
        }

        pub(crate) fn word(&self) -> &W {
            &self.word
        }

        pub(crate) fn sleep(&self, expected: u32, deadline: Option<Instant>, _: Scope) {
            self.bucket.sleep_if(|| self.word.value() == expected, deadline);
        }

        pub(crate) fn wake(&self, count: u32, _: Scope) {
            self.bucket.wake(count);
        }
    }

    pub(crate) fn zeros<const N: usize>() -> [AtomicU64; N] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    loom::lazy_static! {
        /// For words of the caller. A model has only one of them.
        static ref BUCKET: Bucket = Bucket::new();
    }

    pub(crate) fn sleep_on(word: &impl FutexWord, expected: u32, deadline: Option<Instant>, _: Scope) {
        BUCKET.sleep_if(|| word.value() == expected, deadline);
    }

    pub(crate) fn wake_on(_: &impl FutexWord, count: u32, _: Scope) {
        BUCKET.wake(count);
    }

    /// Words that other processes read: of a model, which maps no files.
    pub(crate) type WrittenWords = Arc<Vec<AtomicU64>>;

    pub(crate) fn written_words(_: &std::sync::Arc<Mapping>, _: usize) -> Option<WrittenWords> {
        None
    }

    /// The same words as their readers see them.
    #[derive(Debug)]
    pub(crate) struct ReadOnlyWords<const COUNT: usize>(pub(crate) WrittenWords);

    impl<const COUNT: usize> ReadOnlyWords<COUNT> {
        pub(crate) fn new(_: File) -> io::Result<ReadOnlyWords<COUNT>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn load(&self, place: usize) -> u64 {
            self.0[place].load(Relaxed)
        }

        pub(crate) fn wait(&self, place: usize, expected: u32, deadline: Duration) {
            let deadline = Instant::from_nanos(deadline.as_nanos() as u64);
            sleep_on(&self.0[place], expected, Some(deadline), Scope::Shared);
        }
    }
}
