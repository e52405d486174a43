//! The event queue: a winner tree with one pending event for each CPU.
//!
//! A CPU has exactly one next event or none, and half of the engine's steps also move the event of
//! another CPU. A tournament among the CPUs, replayed from the changed leaf, beats every heap at
//! that: it never searches, and a key that never wins cancels an event. Schedulers find the best
//! thread of a long queue with the same tree.

use std::hint::select_unpredictable;
use std::ops::Range;

pub(crate) trait Key: Copy + Ord {
    /// A key that never wins: no event, no thread.
    const NEVER: Self;
}

impl Key for u64 {
    const NEVER: u64 = u64::MAX;
}

impl Key for u128 {
    const NEVER: u128 = u128::MAX;
}

/// Slots with a key each. The smallest key wins; of equal keys, the lowest slot.
#[derive(Clone, Debug)]
pub(crate) struct WinnerTree<K> {
    /// The keys of the slots, padded to a power of two.
    keys: Vec<K>,
    /// The winning slot of each match. Match `i` is between the winners of `2i` and `2i + 1`, and
    /// match 1 is the final. The second half holds the slots themselves.
    winners: Vec<u32>,
}

impl<K: Key> WinnerTree<K> {
    /// A tree of `slots` slots with keys that never win.
    pub(crate) fn new(slots: usize) -> WinnerTree<K> {
        let width = slots.next_power_of_two().max(2);
        let mut tree = WinnerTree { keys: vec![K::NEVER; width], winners: vec![0; 2 * width] };
        (0..width).for_each(|slot| tree.winners[width + slot] = slot as u32);
        tree.replay_all();
        tree
    }

    /// Gives a slot a new key. The winner so far is carried up, so that the keys of its rivals can
    /// be read ahead of the comparisons. Which of two wins is a coin toss, at which a branch would
    /// often be mispredicted.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, key: K) {
        self.keys[slot] = key;
        let (mut best, mut node) = ((key, slot as u32), self.keys.len() + slot);
        while node > 1 {
            let rival = self.winners[node ^ 1];
            let rival_key = self.keys[rival as usize];
            let loses = (rival_key < best.0) | ((rival_key == best.0) & (rival < best.1));
            best.0 = select_unpredictable(loses, rival_key, best.0);
            best.1 = select_unpredictable(loses, rival, best.1);
            node /= 2;
            self.winners[node] = best.1;
        }
    }

    /// Gives `count` slots new keys.
    pub(crate) fn set_some(&mut self, count: usize, keys: impl Iterator<Item = (usize, K)>) {
        // The games of a few slots are fewer than all games.
        if count * (self.keys.len().ilog2() as usize) < self.keys.len() {
            keys.for_each(|(slot, key)| self.set(slot, key));
        } else {
            keys.for_each(|(slot, key)| self.keys[slot] = key);
            self.replay_all();
        }
    }

    fn replay_all(&mut self) {
        for game in (1..self.keys.len()).rev() {
            self.winners[game] = self.play(self.winners[2 * game], self.winners[2 * game + 1]);
        }
    }

    /// The winner of two slots. The left one has the lower number.
    #[inline]
    fn play(&self, left: u32, right: u32) -> u32 {
        if self.keys[right as usize] < self.keys[left as usize] { right } else { left }
    }

    #[inline]
    pub(crate) fn key(&self, slot: usize) -> K {
        self.keys[slot]
    }

    #[inline]
    pub(crate) fn winner(&self) -> (usize, K) {
        let slot = self.winners[1] as usize;
        (slot, self.keys[slot])
    }

    /// The winner among all other slots, and its key. Of equal keys, that of the next slot after
    /// `slot` wins, cyclically.
    pub(crate) fn winner_after(&self, slot: usize) -> (usize, K) {
        let (after, before) = (self.winner_of(slot + 1..self.keys.len()), self.winner_of(0..slot));
        if before.1 < after.1 { before } else { after }
    }

    /// The winner among some slots, and its key. The key never wins if there are no slots.
    pub(crate) fn winner_of(&self, slots: Range<usize>) -> (usize, K) {
        let width = self.keys.len();
        let mut best = (slots.start, K::NEVER);
        let mut meet = |winners: &[u32], game: usize| {
            let slot = winners[game] as usize;
            let key = self.keys[slot];
            if (key, slot) < (best.1, best.0) {
                best = (slot, key);
            }
        };
        let (mut low, mut high) = (slots.start + width, slots.end + width);
        while low < high {
            if low % 2 == 1 {
                meet(&self.winners, low);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                meet(&self.winners, high);
            }
            low /= 2;
            high /= 2;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_tree_never_wins() {
        assert_eq!(WinnerTree::<u64>::new(1).winner().1, u64::NEVER);
        assert_eq!(WinnerTree::<u128>::new(5).winner().1, u128::NEVER);
        assert_eq!(WinnerTree::<u64>::new(5).winner_of(2..2).1, u64::NEVER);
    }

    proptest! {
        #[test]
        fn the_winner_is_the_first_slot_with_the_smallest_key(
            slots in 1_usize..40,
            changes in prop::collection::vec((0_usize..40, 0_u64..16), 1..200),
            apart in 1_usize..20,
        ) {
            let mut tree = WinnerTree::new(slots);
            let mut obvious = vec![u64::NEVER; slots];
            let first = |obvious: &[u64]| {
                let smallest = *obvious.iter().min().unwrap();
                (obvious.iter().position(|&key| key == smallest).unwrap(), smallest)
            };
            for (slot, key) in changes {
                let (slot, key) = (slot % slots, if key == 15 { u64::NEVER } else { key });
                tree.set(slot, key);
                obvious[slot] = key;
                prop_assert_eq!(tree.winner(), first(&obvious));
                let (at, smallest) = first(&obvious[slot..]);
                prop_assert_eq!(tree.winner_of(slot..slots), (slot + at, smallest));
                let (at, smallest) = first(&obvious[..=slot]);
                prop_assert_eq!(tree.winner_of(0..slot + 1), (at, smallest));
            }
            // All slots, or only a few.
            for slot in (0..slots).step_by(apart) {
                obvious[slot] = 15_u64.saturating_sub(obvious[slot]) + slot as u64 % 2;
            }
            let changed = (0..slots).step_by(apart).map(|slot| (slot, obvious[slot]));
            tree.set_some(changed.len(), changed);
            prop_assert_eq!(tree.winner(), first(&obvious));
            for (low, high) in [(0, slots / 2), (slots / 2, slots)] {
                let (at, smallest) = if low < high { first(&obvious[low..high]) } else { (0, u64::NEVER) };
                prop_assert_eq!(tree.winner_of(low..high), (low + at, smallest));
            }
        }
    }
}
