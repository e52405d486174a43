//! Futexes: a thread blocks in the kernel until another one changes a word of memory and wakes it.
//!
//! The kernel compares the word with the expected value and blocks the thread in one step, so a
//! change between the last check and the block is never lost.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// The reason why a wait ended. The caller must check the word again in every case: a wake may have
/// been meant for an earlier use of the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// Another thread called [`wake`].
    Woken,
    /// The word did not have the expected value, so the thread did not block.
    Changed,
    /// A signal was handled.
    Interrupted,
    /// The timeout has passed.
    TimedOut,
}

/// The threads that wait on and wake a word. Both sides must use the same scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of one process: the kernel identifies the word by its address.
    Process,
    /// Threads of any process that maps the word, identified by its page, which takes longer.
    Shared,
}

impl Scope {
    const fn flags(self) -> Flags {
        match self {
            Scope::Process => Flags::PRIVATE,
            Scope::Shared => Flags::empty(),
        }
    }
}

/// A word on which threads can wait. The kernel compares 32 bits, and a protocol may need to change
/// more in one step: then these are the low half.
pub trait FutexWord {
    /// The value of the bits that the kernel compares.
    fn value(&self) -> u32;

    /// These bits.
    ///
    /// # Safety
    /// Only the kernel may access them. In a program, access to half a word beside the whole would
    /// mix sizes, which the memory model of the language does not define.
    unsafe fn for_the_kernel(&self) -> &AtomicU32;
}

impl FutexWord for AtomicU32 {
    fn value(&self) -> u32 {
        self.load(Relaxed)
    }

    unsafe fn for_the_kernel(&self) -> &AtomicU32 {
        self
    }
}

impl FutexWord for AtomicU64 {
    fn value(&self) -> u32 {
        self.load(Relaxed) as u32
    }

    unsafe fn for_the_kernel(&self) -> &AtomicU32 {
        let halves = std::ptr::from_ref(self).cast::<AtomicU32>();
        // SAFETY: the halves lie within the word, which is borrowed as long as the result; they are
        // aligned, as the word is; and any bits are an `AtomicU32`.
        unsafe { &*halves.add(usize::from(cfg!(target_endian = "big"))) }
    }
}

/// Blocks until woken if `word` still has the value `expected`, at most until `CLOCK_MONOTONIC`
/// reaches `deadline`, counted from its zero.
///
/// Implies no memory ordering: the load of the word by the caller must provide it.
pub fn wait(word: &impl FutexWord, expected: u32, deadline: Option<Duration>, scope: Scope) -> WaitResult {
    wait_bitset(word, expected, deadline, scope, NonZeroU32::MAX)
}

/// As [`wait`], until woken by [`wake`], or by [`wake_bitset`] with any of these bits.
pub fn wait_bitset(
    word: &impl FutexWord,
    expected: u32,
    deadline: Option<Duration>,
    scope: Scope,
    bits: NonZeroU32,
) -> WaitResult {
    let deadline = deadline.map(|deadline| Timespec {
        tv_sec: deadline.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: deadline.subsec_nanos().into(),
    });
    // SAFETY: it is only passed to the kernel.
    let word = unsafe { word.for_the_kernel() };
    match futex::wait_bitset(word, scope.flags(), expected, deadline.as_ref(), bits) {
        Ok(()) => WaitResult::Woken,
        Err(Errno::AGAIN) => WaitResult::Changed,
        Err(Errno::TIMEDOUT) => WaitResult::TimedOut,
        // Signals. A bad address or timeout cannot occur, and the caller checks again in any case.
        Err(_) => WaitResult::Interrupted,
    }
}

/// Wakes at most `count` of the threads that wait on `word`. Returns the number of woken ones.
pub fn wake(word: &impl FutexWord, count: u32, scope: Scope) -> u32 {
    wake_bitset(word, count, scope, NonZeroU32::MAX)
}

/// As [`wake`], of the threads that wait by [`wait`], or by [`wait_bitset`] with any of these bits.
pub fn wake_bitset(word: &impl FutexWord, count: u32, scope: Scope, bits: NonZeroU32) -> u32 {
    // The kernel reads the count as signed, and treats a negative one as one.
    let count = count.min(i32::MAX as u32);
    // SAFETY: as above.
    let word = unsafe { word.for_the_kernel() };
    // It cannot fail with a valid address.
    futex::wake_bitset(word, scope.flags(), count, bits).map_or(0, |woken| woken.try_into().unwrap_or(count))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn a_changed_word_is_not_waited_on() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None, Scope::Process), WaitResult::Changed);
    }

    #[test]
    fn a_wait_ends_with_its_deadline() {
        for scope in [Scope::Process, Scope::Shared] {
            assert_eq!(wait(&AtomicU32::new(1), 1, Some(Duration::from_nanos(1)), scope), WaitResult::TimedOut);
        }
    }

    #[test]
    fn the_kernel_compares_the_low_half_alone() {
        let word = AtomicU64::new(7 << 32 | 5);
        let soon = Some(Duration::from_nanos(1));
        assert_eq!(wait(&word, 5, soon, Scope::Process), WaitResult::TimedOut);
        assert_eq!(wait(&word, 7, soon, Scope::Process), WaitResult::Changed);
    }

    fn check_that_a_waiter_is_woken(word: &(impl FutexWord + Sync), deadline: Option<Duration>) {
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait(word, 0, deadline, Scope::Process));
            while !sleeper.is_finished() && wake(word, 1, Scope::Process) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(sleeper.join().unwrap(), WaitResult::Woken);
        });
    }

    #[test]
    fn a_waiter_on_the_low_half_is_woken() {
        check_that_a_waiter_is_woken(&AtomicU64::new(7 << 32), None);
    }

    #[test]
    fn a_deadline_beyond_the_range_of_the_kernel_never_expires() {
        check_that_a_waiter_is_woken(&AtomicU32::new(0), Some(Duration::MAX));
    }

    #[test]
    fn a_waiter_is_woken_by_its_bits_alone() {
        let word = AtomicU32::new(0);
        let [own, other] = [0b101, 0b010].map(|bits| NonZeroU32::new(bits).unwrap());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait_bitset(&word, 0, None, Scope::Shared, own));
            // It falls asleep meanwhile.
            for _ in 0..1_000 {
                assert_eq!(wake_bitset(&word, 1, Scope::Shared, other), 0);
                std::thread::yield_now();
            }
            while !sleeper.is_finished() && wake_bitset(&word, 1, Scope::Shared, own) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(sleeper.join().unwrap(), WaitResult::Woken);
        });
    }

    #[test]
    fn wake_returns_the_number_of_woken_threads() {
        let word = AtomicU32::new(0);
        assert_eq!(wake(&word, u32::MAX, Scope::Process), 0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while word.load(SeqCst) == 0 && wait(&word, 0, None, Scope::Process) != WaitResult::Changed {}
                });
            }
            let mut woken = 0;
            while woken < 20 {
                let more = wake(&word, 1, Scope::Process);
                assert!(more <= 1);
                woken += more;
                std::thread::yield_now();
            }
            word.store(1, SeqCst);
            assert!(wake(&word, u32::MAX, Scope::Process) <= 3);
        });
    }
}
