//! The deadline by which killed processes must have ended.
//!
//! A process that is killed in an uninterruptible system call, or that belongs to another user,
//! may not die, so there is a limit. But other load keeps processes from their end, and it makes a
//! round of killing last longer than the limit. So:
//!
//! - A round that begins before the deadline counts, however late it ends. The next one shows what
//!   it has done.
//! - The deadline is extended as long as a process needs only a CPU to end, up to a longest time.
//! - It is also extended after a round that has left no killed process. It may have been the last
//!   one.

use super::keeper::NANOS;

/// The time in which killed processes must end. They need little of it if they have a CPU.
pub(super) const TIMEOUT: i64 = 5 * NANOS;
/// The longest time from the first round to the deadline.
pub(super) const LONGEST: i64 = 120 * NANOS;

/// The deadline of rounds of killing. All times are in nanoseconds. It makes no system calls.
#[derive(Debug)]
pub(super) struct KillDeadline {
    begun: i64,
    deadline: i64,
}

impl KillDeadline {
    /// The deadline of rounds that begin now.
    pub(super) fn new(now: i64) -> KillDeadline {
        KillDeadline { begun: now, deadline: now + TIMEOUT }
    }

    /// Extends the deadline at the end of a round, because processes are about to end.
    pub(super) fn extend(&mut self, now: i64) {
        self.deadline = (now + TIMEOUT).min(self.begun + LONGEST);
    }

    /// Whether the deadline had passed at the beginning of a round. If processes are left after
    /// that round, they are given up.
    pub(super) fn has_passed(&self, round_began: i64) -> bool {
        round_began > self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_ends_late_is_followed_by_another_one() {
        let mut deadline = KillDeadline::new(7);
        assert!(!deadline.has_passed(7));
        deadline.extend(7 + 100 * TIMEOUT);
        assert!(!deadline.has_passed(7));
    }

    #[test]
    fn processes_that_do_not_die_are_given_up_after_the_timeout() {
        let deadline = KillDeadline::new(0);
        assert!(!deadline.has_passed(TIMEOUT));
        assert!(deadline.has_passed(TIMEOUT + 1));
    }

    #[test]
    fn processes_that_need_only_a_cpu_to_end_have_the_longest_time() {
        let mut deadline = KillDeadline::new(0);
        for second in 0..=LONGEST / NANOS {
            deadline.extend(second * NANOS);
            assert!(!deadline.has_passed(second * NANOS), "{second}");
        }
        assert!(deadline.has_passed(LONGEST + 1));
        let mut deadline = KillDeadline::new(0);
        deadline.extend(3 * TIMEOUT);
        assert!(!deadline.has_passed(4 * TIMEOUT));
        assert!(deadline.has_passed(4 * TIMEOUT + 1));
    }
}
