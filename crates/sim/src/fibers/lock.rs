//! A lock that fibers take.
//!
//! It is free when it is given back, and the first that waits is woken, to take it when it runs; whoever comes before takes it instead. Who was woken in vain is the next, and then the lock is
//! handed over. As the real one's word, this one says that somebody waits: a woken fiber, when it comes, says it again for those behind it.

use std::collections::VecDeque;

/// A lock, and who waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lock {
    owner: Option<u32>,
    /// Who waits, and whether it was woken in vain.
    waiting: VecDeque<(u32, bool)>,
    tells_of_waiting: bool,
}

impl Lock {
    /// A fiber takes it, which has been woken for it or comes for the first time; or else it is false, and it waits from now on.
    pub(super) fn take(&mut self, fiber: u32, was_woken: bool) -> bool {
        match self.owner {
            // It was handed over.
            Some(owner) if owner == fiber => return true,
            None => {
                self.owner = Some(fiber);
                self.tells_of_waiting = was_woken && !self.waiting.is_empty();
                return true;
            }
            Some(_) if was_woken => self.waiting.push_front((fiber, true)),
            Some(_) => self.waiting.push_back((fiber, false)),
        }
        self.tells_of_waiting = true;
        false
    }

    /// Its owner gives it back. Returns who is to be woken for it: who was woken in vain, or the first of those that wait at the least level.
    pub(super) fn give_back<L: Ord>(&mut self, level: impl Fn(u32) -> L) -> Option<u32> {
        self.owner = None;
        if !std::mem::take(&mut self.tells_of_waiting) {
            return None;
        }
        // Of several that are least, `min_by_key` returns the first.
        let least = |&place: &usize| (!self.waiting[place].1, level(self.waiting[place].0));
        let place = (0..self.waiting.len()).min_by_key(least)?;
        let (next, in_vain) = self.waiting.remove(place)?;
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
        assert!(lock.take(9, false));
        assert!([1, 2, 3].into_iter().all(|fiber| !lock.take(fiber, false)));
        let level = |fiber| [0, 5, 4, 4][fiber as usize];
        for next in [2, 3, 1] {
            assert_eq!(lock.give_back(level), Some(next));
            assert!(lock.take(next, true));
        }
        assert_eq!(lock.give_back(level), None);
    }

    #[test]
    fn who_is_woken_in_vain_has_it_the_next_time() {
        let mut lock = Lock::default();
        assert!(lock.take(9, false) && !lock.take(1, false) && !lock.take(2, false));
        assert_eq!(lock.give_back(|_| 0), Some(1));
        assert!(lock.take(9, false), "it is free");
        assert_eq!(lock.give_back(|_| 0), None, "the woken speaks for those behind it");
        assert!(lock.take(9, false) && !lock.take(1, true));
        assert_eq!(lock.give_back(|_| 0), Some(1));
        assert!(!lock.take(9, false) && lock.take(1, true), "it was handed over");
        assert_eq!(lock.give_back(|_| 0), Some(2));
    }
}
