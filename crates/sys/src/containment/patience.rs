//! How long the end of killed processes is awaited.
//!
//! A process that is killed in an uninterruptible system call, or that belongs to another user,
//! may not die, so a limit is needed. But other load keeps processes from their end, and it makes a
//! round of killing last longer than the limit. So these do not count:
//!
//! - A round that began in time, however late it ends. The next one shows what it has done.
//! - The time in which a process needs only a CPU to end. Only the longest time limits that.
//! - A round after which no killed process is left. It may have been the last one.

use super::keeper::NANOS;

/// The time in which killed processes must end. They need little of it if they have a CPU.
pub(super) const TIMEOUT: i64 = 5 * NANOS;
/// The longest time, from the first round on, in which something ends.
pub(super) const LONGEST: i64 = 120 * NANOS;

/// Decides after each round of killing whether to give up. All times are in nanoseconds. It makes
/// no system calls.
#[derive(Debug)]
pub(super) struct Patience {
    begun: i64,
    deadline: i64,
}

impl Patience {
    pub(super) fn new(now: i64) -> Patience {
        Patience { begun: now, deadline: now + TIMEOUT }
    }

    /// Whether to give up after a round with this beginning and this end, in which something was
    /// left to end. `is_ending` says that nothing is left of that, or that a part of it needs only
    /// a CPU to end.
    pub(super) fn is_over(&mut self, began: i64, ended: i64, is_ending: bool) -> bool {
        if is_ending {
            self.deadline = (ended + TIMEOUT).min(self.begun + LONGEST);
        }
        began > self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_ends_late_is_followed_by_another_one() {
        for is_ending in [false, true] {
            let mut patience = Patience::new(7);
            assert!(!patience.is_over(7, 7 + 100 * TIMEOUT, is_ending));
        }
    }

    #[test]
    fn processes_that_do_not_die_are_given_up_after_the_timeout() {
        let mut patience = Patience::new(0);
        assert!(!patience.is_over(TIMEOUT, TIMEOUT + 1, false));
        assert!(patience.is_over(TIMEOUT + 1, TIMEOUT + 1, false));
    }

    #[test]
    fn processes_that_need_only_a_cpu_to_end_have_the_longest_time() {
        let mut patience = Patience::new(0);
        for second in 0..=LONGEST / NANOS {
            assert!(!patience.is_over(second * NANOS, second * NANOS, true), "{second}");
        }
        assert!(patience.is_over(LONGEST + 1, LONGEST + 1, true));
        let mut patience = Patience::new(0);
        assert!(!patience.is_over(0, 3 * TIMEOUT, true));
        assert!(!patience.is_over(4 * TIMEOUT, 4 * TIMEOUT, false), "since the last one that was ending");
        assert!(patience.is_over(4 * TIMEOUT + 1, 4 * TIMEOUT + 1, false));
    }
}
