//! Interleaving: the order of runs, the same for all experiments.
//!
//! Runs come in rounds (randomized blocks). A round holds every arm once, in a random order. So a
//! machine that warms up or slowly gets busier affects all arms alike and does not look like a
//! difference between them. The orders are drawn from the experiment's seed.

use std::ops::Range;

use scenario::draw::Stream;

/// Puts the runs of a round into the order that belongs to the round's number.
pub fn shuffle<T>(round: &mut [T], seed: u64, number: u32) {
    Stream::named(seed, "order of runs", number).shuffle(round);
}

/// Returns the runs of these rounds in their order: the number of the round and that of the arm.
pub fn rounds(arms: usize, rounds: Range<u32>, seed: u64) -> impl Iterator<Item = (u32, usize)> {
    rounds.flat_map(move |number| {
        let mut round: Vec<usize> = (0..arms).collect();
        shuffle(&mut round, seed, number);
        round.into_iter().map(move |arm| (number, arm))
    })
}

/// Returns the runs of the first `count` rounds that have not been made, in their order.
pub fn missing(arms: usize, count: u32, seed: u64, is_made: impl Fn(u32, usize) -> bool) -> Vec<(u32, usize)> {
    rounds(arms, 0..count, seed).filter(|&(round, arm)| !is_made(round, arm)).collect()
}

/// Whether the first of two arms runs first in this pair of runs. Two successive pairs have
/// opposite orders; which order comes first is drawn.
pub fn runs_first(seed: u64, pair: u32) -> bool {
    Stream::named(seed, "order of pairs", pair / 2).below(2) == u64::from(pair % 2)
}

/// One of the two arms of a comparison in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The arm that the other one is compared with.
    Baseline,
    /// The other one.
    Contender,
}

/// Runs both arms in pairs, right after each other in alternating order, and passes each pair to
/// `each`, the baseline first. Another pair precedes them to warm up the machine and is not passed.
/// Ends early, without an error, if `run` returns `None`.
///
/// # Errors
///
/// The first error of `run`.
pub fn alternate<T, E>(
    pairs: u32,
    mut run: impl FnMut(Side) -> Result<Option<T>, E>,
    mut each: impl FnMut(T, T),
) -> Result<(), E> {
    for number in 0..=pairs {
        let baseline_first = number % 2 == 0;
        let (first, second) = match baseline_first {
            true => (Side::Baseline, Side::Contender),
            false => (Side::Contender, Side::Baseline),
        };
        let Some(first) = run(first)? else { return Ok(()) };
        let Some(second) = run(second)? else { return Ok(()) };
        let (baseline, contender) = if baseline_first { (first, second) } else { (second, first) };
        if number > 0 {
            each(baseline, contender);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_holds_every_arm_once_in_a_different_order() {
        let runs: Vec<(u32, usize)> = rounds(9, 0..20, 7).collect();
        let orders: Vec<Vec<usize>> = runs.chunks(9).map(|round| round.iter().map(|&(_, arm)| arm).collect()).collect();
        assert!(runs.iter().map(|&(round, _)| round).eq((0..20).flat_map(|round| [round; 9])));
        assert!(orders.iter().any(|order| *order != orders[0]));
        for mut order in orders {
            order.sort_unstable();
            assert!(order.into_iter().eq(0..9));
        }
    }

    #[test]
    fn later_rounds_have_the_order_that_they_would_have_had_in_a_longer_experiment() {
        assert!(rounds(5, 0..3, 1).chain(rounds(5, 3..9, 1)).eq(rounds(5, 0..9, 1)));
        assert!(rounds(5, 0..9, 1).ne(rounds(5, 0..9, 2)));
    }

    #[test]
    fn runs_that_were_made_are_not_repeated_and_the_others_keep_their_order() {
        let all: Vec<(u32, usize)> = rounds(9, 0..3, 7).collect();
        let (made, rest) = all.split_at(11);
        assert_eq!(missing(9, 3, 7, |round, arm| made.contains(&(round, arm))), rest);
        assert_eq!(missing(9, 1, 7, |round, arm| made.contains(&(round, arm))), []);
    }

    #[test]
    fn two_successive_pairs_have_opposite_orders() {
        assert!((0..40).step_by(2).all(|pair| runs_first(3, pair) != runs_first(3, pair + 1)));
        let firsts: Vec<bool> = (0..40).step_by(2).map(|pair| runs_first(3, pair)).collect();
        assert!(firsts.contains(&true) && firsts.contains(&false));
    }

    #[test]
    fn both_arms_take_turns_and_the_first_pair_does_not_count() {
        let (mut order, mut pairs) = (Vec::new(), Vec::new());
        let run = |side| {
            order.push(side);
            Ok::<_, ()>(Some((side, order.len())))
        };
        assert_eq!(alternate(2, run, |baseline, contender| pairs.push((baseline, contender))), Ok(()));
        let (baseline, contender) = (Side::Baseline, Side::Contender);
        assert_eq!(order, [baseline, contender, contender, baseline, baseline, contender]);
        assert_eq!(pairs, [((baseline, 4), (contender, 3)), ((baseline, 5), (contender, 6))]);
    }

    #[test]
    fn a_comparison_ends_early_if_a_run_has_no_result_or_fails() {
        let compare = |stop: Result<Option<()>, &'static str>| {
            let (mut runs, mut pairs) = (0, 0);
            let run = |_| {
                runs += 1;
                if runs < 6 { Ok(Some(())) } else { stop }
            };
            (alternate(9, run, |(), ()| pairs += 1), pairs)
        };
        assert_eq!((compare(Ok(None)), compare(Err("no"))), ((Ok(()), 1), (Err("no"), 1)));
    }
}
