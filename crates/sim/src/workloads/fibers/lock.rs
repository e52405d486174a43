//! A lock that fibers take.
//!
//! It is free when it is given back, and the first that waits is woken, to take it when it runs; whoever comes before takes it instead. Who was woken in vain waits before the others of its
//! level, and the next time the lock is handed over. As the real one's word, this one says that somebody waits: a woken fiber, when it comes, says it again for those behind it.

use std::collections::VecDeque;

use policy::feedback::Level;

/// A lock, and who waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    owner: Option<u32>,
    /// Who waits, and whether it was woken in vain. In the order of the levels that they had when they came.
    waiting: VecDeque<(u32, bool)>,
    tells_of_waiting: bool,
}

impl Lock {
    /// A fiber takes it, which has been woken for it or comes for the first time; or else it is false, and it waits from now on.
    pub(super) fn take(&mut self, fiber: u32, was_woken: bool, level: impl Fn(u32) -> Level) -> bool {
        match self.owner {
            // It was handed over.
            Some(owner) if owner == fiber => return true,
            None => {
                self.owner = Some(fiber);
                self.tells_of_waiting = was_woken && !self.waiting.is_empty();
                return true;
            }
            Some(_) => {}
        }
        let mine = level(fiber);
        let is_before = |other: u32| mine < level(other) || was_woken && mine == level(other);
        let behind = self.waiting.iter().rev().take_while(|(other, _)| is_before(*other)).count();
        self.waiting.insert(self.waiting.len() - behind, (fiber, was_woken));
        self.tells_of_waiting = true;
        false
    }

    /// Who has it, and the first of those who wait for it, if somebody does.
    pub(super) fn owner_and_first(&self) -> Option<(u32, u32)> {
        self.owner.zip(self.waiting.front().map(|(first, _)| *first))
    }

    /// Its owner gives it back. Returns who is to be woken for it.
    pub(super) fn give_back(&mut self) -> Option<u32> {
        self.owner = None;
        if !std::mem::take(&mut self.tells_of_waiting) {
            return None;
        }
        let (next, in_vain) = self.waiting.pop_front()?;
        if in_vain {
            self.owner = Some(next);
            self.tells_of_waiting = !self.waiting.is_empty();
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_is_woken_first_and_there_who_came_first() {
        let mut lock = Lock::default();
        let level = |fiber: u32| Level([0, 5, 4, 4, 5].get(fiber as usize).copied().unwrap_or_default());
        assert!(lock.take(9, false, level));
        assert!([1, 2, 3, 4].into_iter().all(|fiber| !lock.take(fiber, false, level)));
        for next in [2, 3, 1, 4] {
            assert_eq!(lock.owner_and_first().map(|(_, first)| first), Some(next));
            assert_eq!(lock.give_back(), Some(next));
            assert!(lock.take(next, true, level));
        }
        assert_eq!(lock.give_back(), None);
    }

    #[test]
    fn who_is_woken_in_vain_has_it_the_next_time() {
        let mut lock = Lock::default();
        let level = |_| Level(0);
        assert!(lock.take(9, false, level) && !lock.take(1, false, level) && !lock.take(2, false, level));
        assert_eq!(lock.give_back(), Some(1));
        assert!(lock.take(9, false, level), "it is free");
        assert_eq!(lock.give_back(), None, "the woken speaks for those behind it");
        assert!(lock.take(9, false, level) && !lock.take(1, true, level));
        assert_eq!(lock.give_back(), Some(1));
        assert!(!lock.take(9, false, level) && lock.take(1, true, level), "it was handed over");
        assert_eq!(lock.give_back(), Some(2));
    }
}
