//! A tree of losers: which of many sorted runs has the least record.
//!
//! Source: Knuth (1973), The Art of Computer Programming, volume 3, section 5.4.1. Each inner node keeps who lost there; when the winner's
//! run has gone on to its next record, that record plays only those on its way up.

/// A run's number.
pub(crate) type RunIndex = usize;

/// Who is first among runs with keys of their own.
pub(crate) struct Tournament {
    /// At 0 the winner, at the others who lost there: a key and whose it is.
    nodes: Vec<(u128, RunIndex)>,
    runs: usize,
}

/// The key of one who has no more: after all others. No record has it, since its free bits are those of no run.
pub(crate) const OVER: u128 = u128::MAX;

impl Tournament {
    /// A tournament of runs with these keys. `is_before` says of two keys that are not [`OVER`] which comes first, and never that neither does.
    pub(crate) fn new(keys: &[u128], mut is_before: impl FnMut(u128, u128) -> bool) -> Tournament {
        let runs = keys.len().max(1);
        let mut nodes = vec![(OVER, 0); runs];
        // The winners of the subtrees: below the leaves, which are behind the inner nodes.
        let mut winners = vec![(OVER, 0); 2 * runs];
        for (run, &key) in keys.iter().enumerate() {
            winners[runs + run] = (key, run);
        }
        for node in (1..runs).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let left_wins = first(left.0, right.0, &mut is_before);
            (winners[node], nodes[node]) = if left_wins { (left, right) } else { (right, left) };
        }
        nodes[0] = winners[1.min(2 * runs - 1)];
        Tournament { nodes, runs }
    }

    /// The one who is first, with the key.
    #[inline]
    pub(crate) fn winner(&self) -> (u128, RunIndex) {
        self.nodes[0]
    }

    /// The winner goes on with this key.
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

/// Whether the left one is first.
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
        fn it_merges_as_a_sort_does(mut runs in prop::collection::vec(prop::collection::vec(0..50u128, 0..20), 1..9)) {
            runs.iter_mut().for_each(|run| run.sort_unstable());
            let mut all: Vec<u128> = runs.iter().flatten().copied().collect();
            all.sort_unstable();
            let before = |left: u128, right: u128| left < right;
            let mut at = vec![0; runs.len()];
            // A key says also whose it is, so that none are equal.
            let key = |at: &[usize], run: usize| runs[run].get(at[run]).map_or(OVER, |value| value << 32 | run as u128);
            let keys: Vec<u128> = (0..runs.len()).map(|run| key(&at, run)).collect();
            let mut tournament = Tournament::new(&keys, before);
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
