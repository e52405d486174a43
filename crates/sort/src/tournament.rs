//! A tournament tree: finds the run with the least head among many sorted runs.
//!
//! Source: Knuth (1973), The Art of Computer Programming, volume 3, section 5.4.1. It is a tree of
//! losers: each inner node holds the loser of its match. When the winner's run advances to its next
//! record, that record is compared only with the nodes on its path to the root.

use std::collections::TryReserveError;

pub(crate) struct Tournament {
    /// Node 0 is the winner, the others are the losers of their matches: a key and its run.
    nodes: Vec<(u128, usize)>,
    runs: usize,
}

/// The key of an exhausted run, greater than all others. No record has it, since no run has an
/// index with all bits set.
pub(crate) const OVER: u128 = u128::MAX;

impl Tournament {
    /// Creates a tournament of runs with these keys. `is_before(left, right)` gets keys other than
    /// [`OVER`] and must define a strict total order.
    ///
    /// # Errors
    /// Returns an error if there is no memory.
    pub(crate) fn new(
        keys: &[u128],
        mut is_before: impl FnMut(u128, u128) -> bool,
    ) -> Result<Tournament, TryReserveError> {
        let runs = keys.len().max(1);
        // The winners of the subtrees; the leaves follow the inner nodes.
        let (mut nodes, mut winners) = (Vec::new(), Vec::new());
        nodes.try_reserve_exact(runs)?;
        winners.try_reserve_exact(2 * runs)?;
        nodes.resize(runs, (OVER, 0));
        winners.resize(2 * runs, (OVER, 0));
        for (run, &key) in keys.iter().enumerate() {
            winners[runs + run] = (key, run);
        }
        for node in (1..runs).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let left_wins = first(left.0, right.0, &mut is_before);
            (winners[node], nodes[node]) = if left_wins { (left, right) } else { (right, left) };
        }
        nodes[0] = winners[1];
        Ok(Tournament { nodes, runs })
    }

    /// The least key and its run.
    #[inline]
    pub(crate) fn winner(&self) -> (u128, usize) {
        self.nodes[0]
    }

    /// Replaces the key of the winner and finds the next winner.
    #[inline]
    pub(crate) fn replace_winner(&mut self, key: u128, mut is_before: impl FnMut(u128, u128) -> bool) {
        let mut best = (key, self.nodes[0].1);
        let mut node = (self.runs + best.1) / 2;
        while node > 0 {
            let other = self.nodes[node];
            if first(other.0, best.0, &mut is_before) {
                self.nodes[node] = best;
                best = other;
            }
            node /= 2;
        }
        self.nodes[0] = best;
    }
}

/// Whether the left key comes first.
#[inline]
fn first(left: u128, right: u128, is_before: &mut impl FnMut(u128, u128) -> bool) -> bool {
    match (left, right) {
        (OVER, _) => false,
        (_, OVER) => true,
        _ => is_before(left, right),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merging_equals_sorting(mut runs in prop::collection::vec(prop::collection::vec(0..50u128, 0..20), 1..9)) {
            runs.iter_mut().for_each(|run| run.sort_unstable());
            let mut all: Vec<u128> = runs.iter().flatten().copied().collect();
            all.sort_unstable();
            let before = |left: u128, right: u128| left < right;
            let mut at = vec![0; runs.len()];
            // The run is part of the key, so all keys differ.
            let key = |at: &[usize], run: usize| runs[run].get(at[run]).map_or(OVER, |value| value << 32 | run as u128);
            let keys: Vec<u128> = (0..runs.len()).map(|run| key(&at, run)).collect();
            let mut tournament = Tournament::new(&keys, before).unwrap();
            let mut merged = Vec::new();
            while let (winner, run) = tournament.winner() && winner != OVER {
                merged.push(winner >> 32);
                at[run] += 1;
                tournament.replace_winner(key(&at, run), before);
            }
            prop_assert_eq!(merged, all);
        }
    }
}
