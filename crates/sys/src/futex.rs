//! Futexes: a thread sleeps in the kernel until another one has changed a word of memory and wakes it.
//!
//! The kernel compares the word with what the sleeper expects and puts it to
//! sleep in one step, so a change between the sleeper's last look and its sleep is never lost.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// Why a wait has ended. Whoever waited looks at the word again in each case: a wake may have been meant for an earlier
/// use of the same word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    /// Somebody called [`wake`].
    Woken,
    /// The word did not have the expected value, so the thread did not sleep.
    Changed,
    /// A signal was handled.
    Interrupted,
    /// The timeout has passed.
    TimedOut,
}

/// Who sleeps on a word and wakes its sleepers. Both sides must say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Threads of one process: the kernel finds the sleepers by the word's address.
    Process,
    /// Threads of any process that has the word in its memory: the kernel asks which page that is, which takes longer.
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

/// Sleeps until woken, if `word` still has the value `expected`, and no longer than until the clock `CLOCK_MONOTONIC` is
/// at `deadline`, counted from its zero.
///
/// Orders no memory: the caller's own load of the word does that.
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<Duration>, scope: Scope) -> WaitResult {
    let deadline = deadline.map(|deadline| Timespec {
        tv_sec: deadline.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: deadline.subsec_nanos().into(),
    });
    match futex::wait_bitset(word, scope.flags(), expected, deadline.as_ref(), NonZeroU32::MAX) {
        Ok(()) => WaitResult::Woken,
        Err(Errno::AGAIN) => WaitResult::Changed,
        Err(Errno::TIMEDOUT) => WaitResult::TimedOut,
        // Signals; the errors of a bad address or timeout cannot occur here, and a caller looks again in any case.
        Err(_) => WaitResult::Interrupted,
    }
}

/// Wakes at most `count` of the threads that sleep on `word` and returns how many there were to wake.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> u32 {
    // The kernel reads the count as signed, and a negative one as one.
    let count = count.min(i32::MAX as u32);
    // It cannot fail with a valid address.
    futex::wake(word, scope.flags(), count).map_or(0, |woken| woken.try_into().unwrap_or(count))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn a_word_that_has_changed_is_not_slept_on() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None, Scope::Process), WaitResult::Changed);
    }

    #[test]
    fn a_wait_ends_with_its_deadline() {
        for scope in [Scope::Process, Scope::Shared] {
            assert_eq!(wait(&AtomicU32::new(1), 1, Some(Duration::from_nanos(1)), scope), WaitResult::TimedOut);
        }
    }

    #[test]
    fn a_deadline_beyond_the_kernels_range_waits_as_long_as_it_can() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wait(&word, 0, Some(Duration::MAX), Scope::Process));
            while !sleeper.is_finished() && wake(&word, 1, Scope::Process) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(sleeper.join().unwrap(), WaitResult::Woken);
        });
    }

    #[test]
    fn waking_wakes_as_many_as_asked_for_and_says_how_many() {
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
