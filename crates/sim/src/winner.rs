//! The event queue: a winner tree with one pending event for each CPU.
//!
//! A CPU has exactly one next event (or none), and half of the engine's steps move another CPU's event as well. A
//! tournament among the CPUs, replayed from the leaf that changed, beats every heap at that: it never searches, and an
//! event is cancelled by a key that never wins.

/// A key that never wins: no event.
pub(crate) const NEVER: u64 = u64::MAX;

/// Slots with a key each; the smallest key wins, among equals the lowest slot.
#[derive(Clone, Debug)]
pub(crate) struct WinnerTree {
    /// The keys of the slots, padded to a power of two.
    keys: Vec<u64>,
    /// The winning slot of each match; match `i` is between the winners of `2i` and `2i + 1`, match 1 is the final. The
    /// second half holds the slots themselves.
    winners: Vec<u32>,
}

impl WinnerTree {
    /// A tree of `slots` slots, none of which has an event.
    pub(crate) fn new(slots: usize) -> WinnerTree {
        let width = slots.next_power_of_two().max(2);
        let mut tree = WinnerTree { keys: vec![NEVER; width], winners: vec![0; 2 * width] };
        for slot in 0..width {
            tree.winners[width + slot] = slot as u32;
        }
        for game in (1..width).rev() {
            tree.winners[game] = tree.winners[2 * game];
        }
        tree
    }

    /// Gives `slot` a new key.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, key: u64) {
        let width = self.keys.len();
        self.keys[slot] = key;
        let mut game = (width + slot) / 2;
        while game > 0 {
            let (left, right) = (self.winners[2 * game], self.winners[2 * game + 1]);
            let right_wins = self.keys[right as usize] < self.keys[left as usize];
            self.winners[game] = if right_wins { right } else { left };
            game /= 2;
        }
    }

    /// The winning slot and its key.
    #[inline]
    pub(crate) fn winner(&self) -> (usize, u64) {
        let slot = self.winners[1] as usize;
        (slot, self.keys[slot])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_tree_never_wins() {
        assert_eq!(WinnerTree::new(1).winner().1, NEVER);
        assert_eq!(WinnerTree::new(5).winner().1, NEVER);
    }

    proptest! {
        #[test]
        fn the_winner_is_the_first_slot_with_the_smallest_key(
            slots in 1_usize..40,
            changes in prop::collection::vec((0_usize..40, 0_u64..16), 1..200),
        ) {
            let mut tree = WinnerTree::new(slots);
            let mut obvious = vec![NEVER; slots];
            for (slot, key) in changes {
                let (slot, key) = (slot % slots, if key == 15 { NEVER } else { key });
                tree.set(slot, key);
                obvious[slot] = key;
                let smallest = *obvious.iter().min().unwrap();
                let first = obvious.iter().position(|&key| key == smallest).unwrap();
                prop_assert_eq!(tree.winner(), (first, smallest));
            }
        }
    }
}
