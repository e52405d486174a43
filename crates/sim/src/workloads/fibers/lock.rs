//! The lock of fibers.
//!
//! A release makes the lock free and wakes the first waiter, which acquires the lock when it runs.
//! A fiber that comes earlier acquires it instead. A waiter that was woken in vain waits before the
//! others of its level, and the next release hands the lock over to it. As in the real lock, a mark
//! in the word tells that fibers wait. A woken fiber sets it again for those behind it.

use std::collections::VecDeque;

use policy::feedback::Level;

#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    owner: Option<u32>,
    /// The waiters, and whether each was woken in vain. In the order of the levels that they had
    /// when they arrived.
    waiting: VecDeque<(u32, bool)>,
    may_have_waiters: bool,
}

impl Lock {
    /// A fiber acquires the lock, because it was woken for it or for the first time. Returns false
    /// if it has to wait.
    pub(super) fn acquire(&mut self, fiber: u32, was_woken: bool, level: impl Fn(u32) -> Level) -> bool {
        match self.owner {
            // The lock was handed over.
            Some(owner) if owner == fiber => return true,
            None => {
                self.owner = Some(fiber);
                self.may_have_waiters = was_woken && !self.waiting.is_empty();
                return true;
            }
            Some(_) => {}
        }
        let mine = level(fiber);
        let is_before = |other: u32| mine < level(other) || was_woken && mine == level(other);
        let behind = self.waiting.iter().rev().take_while(|(other, _)| is_before(*other)).count();
        self.waiting.insert(self.waiting.len() - behind, (fiber, was_woken));
        self.may_have_waiters = true;
        false
    }

    /// The owner and the first waiter, if both exist.
    pub(super) fn owner_and_first(&self) -> Option<(u32, u32)> {
        self.owner.zip(self.waiting.front().map(|(first, _)| *first))
    }

    /// Releases the lock. Returns the fiber to wake.
    pub(super) fn release(&mut self) -> Option<u32> {
        self.owner = None;
        if !std::mem::take(&mut self.may_have_waiters) {
            return None;
        }
        let (next, in_vain) = self.waiting.pop_front()?;
        if in_vain {
            self.owner = Some(next);
            self.may_have_waiters = !self.waiting.is_empty();
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_waiter_of_the_highest_level_is_woken() {
        let mut lock = Lock::default();
        let level = |fiber: u32| Level([0, 5, 4, 4, 5].get(fiber as usize).copied().unwrap_or_default());
        assert!(lock.acquire(9, false, level));
        assert!([1, 2, 3, 4].into_iter().all(|fiber| !lock.acquire(fiber, false, level)));
        for next in [2, 3, 1, 4] {
            assert_eq!(lock.owner_and_first().map(|(_, first)| first), Some(next));
            assert_eq!(lock.release(), Some(next));
            assert!(lock.acquire(next, true, level));
        }
        assert_eq!(lock.release(), None);
    }

    #[test]
    fn a_waiter_woken_in_vain_gets_the_lock_the_next_time() {
        let mut lock = Lock::default();
        let level = |_| Level(0);
        assert!(lock.acquire(9, false, level) && !lock.acquire(1, false, level) && !lock.acquire(2, false, level));
        assert_eq!(lock.release(), Some(1));
        assert!(lock.acquire(9, false, level), "it is free");
        assert_eq!(lock.release(), None, "the woken fiber sets the mark for those behind it");
        assert!(lock.acquire(9, false, level) && !lock.acquire(1, true, level));
        assert_eq!(lock.release(), Some(1));
        assert!(!lock.acquire(9, false, level) && lock.acquire(1, true, level), "it was handed over");
        assert_eq!(lock.release(), Some(2));
    }
}
