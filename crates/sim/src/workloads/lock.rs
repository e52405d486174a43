//! The lock of a `lock` job, which works like the mutex of `rowlock-wait`.
//!
//! * **Acquire.** A thread that finds the lock free acquires it, even if others wait or sleep: one
//!   that arrives, one that looks again after a yield, one that was woken, or one that spins. If
//!   several threads spin with a CPU when the lock is released, the one that has waited longest
//!   acquires it. A thread that spins without a CPU looks when it has one again.
//! * **Sleep.** A thread that blocks sleeps behind the other sleepers, and sets the mark for
//!   sleepers in the lock's word.
//! * **Release.** If the mark is set, the first sleeper is woken and the mark is cleared. It is set
//!   again when a thread that has slept acquires the lock, or when one goes to sleep. While a
//!   thread spins, sleepers are passed over, at most 64 times in a row.
//! * **Wake.** The woken thread looks when it has a CPU. If the lock is held again, its rule
//!   decides.
//!
//! Acquiring, releasing and waking cost nothing beyond the switches that they cause. No waiter
//! knows the next owner, so each wait starts with a fresh waiter. A rule can find out only
//! whether the owner runs.

use std::collections::VecDeque;

use policy::ThreadId;

/// How often sleepers are passed over in a row.
const MAX_PASSES: u32 = 64;

#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    owner: Option<ThreadId>,
    /// The waiters that do not sleep, in the order in which they arrived or were woken.
    awake: Vec<Awake>,
    /// The sleepers, in the order in which they will be woken.
    asleep: VecDeque<ThreadId>,
    /// The mark in the lock's word: there may be sleepers.
    may_have_sleepers: bool,
    /// How often sleepers have been passed over since one was woken.
    passed: u32,
}

#[derive(Clone, Copy, Debug)]
struct Awake {
    thread: ThreadId,
    has_slept: bool,
}

impl Lock {
    pub(crate) fn is_free(&self) -> bool {
        self.owner.is_none()
    }

    pub(crate) fn is_held_by(&self, thread: ThreadId) -> bool {
        self.owner == Some(thread)
    }

    pub(crate) fn owner(&self) -> Option<ThreadId> {
        self.owner
    }

    /// The waiters that do not sleep, the one that has waited longest first.
    pub(crate) fn awake(&self) -> impl Iterator<Item = ThreadId> {
        self.awake.iter().map(|awake| awake.thread)
    }

    pub(crate) fn begin_wait(&mut self, thread: ThreadId) {
        self.awake.push(Awake { thread, has_slept: false });
    }

    pub(crate) fn sleep(&mut self, thread: ThreadId) {
        self.awake.retain(|awake| awake.thread != thread);
        self.asleep.push_back(thread);
        self.may_have_sleepers = true;
    }

    /// A thread acquires the lock. It may have waited.
    pub(crate) fn acquire(&mut self, thread: ThreadId) {
        debug_assert!(self.is_free(), "thread {thread} acquires a lock that is not free");
        if let Some(place) = self.awake.iter().position(|awake| awake.thread == thread) {
            // A thread that has slept does not know whether others still sleep.
            self.may_have_sleepers |= self.awake.remove(place).has_slept;
        }
        self.owner = Some(thread);
    }

    /// Releases the lock. Returns the thread to wake. `spins` tells whether a waiter spins.
    pub(crate) fn release(&mut self, spins: impl Fn(ThreadId) -> bool) -> Option<ThreadId> {
        self.owner = None;
        if !self.may_have_sleepers {
            return None;
        }
        if self.passed < MAX_PASSES && self.awake.iter().any(|awake| spins(awake.thread)) {
            self.passed += 1;
            return None;
        }
        (self.may_have_sleepers, self.passed) = (false, 0);
        let woken = self.asleep.pop_front()?;
        self.awake.push(Awake { thread: woken, has_slept: true });
        Some(woken)
    }

    /// Checks the invariants after an event: every sleeper will be woken, by the owner or later by
    /// a waiter that is awake; and the lock is not free while a thread spins with a CPU.
    pub(crate) fn check(&self, spins_with_a_cpu: impl Fn(ThreadId) -> bool) {
        let will_be_woken = self.owner.is_some() && self.may_have_sleepers || !self.awake.is_empty();
        assert!(self.asleep.is_empty() || will_be_woken, "no thread will wake the sleepers: {self:?}");
        assert!(!self.is_free() || !self.awake.iter().any(|awake| spins_with_a_cpu(awake.thread)), "{self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spinning_waiter_delays_sleepers_but_not_for_ever() {
        let [owner, sleeper, spinner] = [0, 1, 2].map(ThreadId);
        let mut lock = Lock::default();
        lock.acquire(owner);
        lock.begin_wait(sleeper);
        lock.sleep(sleeper);
        lock.begin_wait(spinner);
        let spins = |thread| thread == spinner;
        for turn in 0..MAX_PASSES {
            assert_eq!(lock.release(spins), None, "turn {turn}");
            lock.acquire(owner);
        }
        assert_eq!(lock.release(spins), Some(sleeper));
    }

    #[test]
    fn a_release_wakes_the_first_sleeper_and_its_release_wakes_the_next() {
        let [owner, first, second] = [0, 1, 2].map(ThreadId);
        let mut lock = Lock::default();
        lock.acquire(owner);
        for sleeper in [first, second] {
            lock.begin_wait(sleeper);
            lock.sleep(sleeper);
        }
        let none_spins = |_| false;
        assert_eq!(lock.release(none_spins), Some(first));
        // The owner reacquires the lock before the woken thread. That wakes no other thread.
        lock.acquire(owner);
        assert_eq!(lock.release(none_spins), None);
        lock.acquire(first);
        assert_eq!(lock.release(none_spins), Some(second));
    }
}
