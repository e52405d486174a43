//! Alternating synchronization: the threads of a barrier form two groups that take turns.
//!
//! One group arrives, spins without success and falls asleep. The other arrives, completes the
//! round while it spins, and wakes the first. In the next round the groups change roles. Source:
//! Tsafrir and Feitelson, section 3.
//!
//! While the threads alternate, a thread that passes one round awake falls asleep in the next, so
//! few threads are awake twice in succession. Threads that run together are awake in every round.
//! If the awake threads were drawn at random in every round, `a` of `s` threads in one round and
//! `b` in the next, then `a b / s` of them would be awake in both. A round
//!
//! * *alternates* if at most [`MAX_REPEAT_SHARE`] of that number are awake twice,
//! * *does not alternate* if more are,
//! * is *undecided* if that number is below [`MIN_EXPECTED_REPEATS`], for example if threads block
//!   immediately and only the last to arrive is ever awake.
//!
//! The pattern is the stretch of rounds with the largest sum: an alternating round adds one, a
//! round that does not alternate subtracts [`PENALTY`]. Each part at its beginning or end then has
//! at least three alternating rounds for each of the others, and no longer stretch is better. A sum
//! below [`MIN_SUM`] is no pattern.
//!
//! Groups are *clean* if all threads change sides in every round. They need not be: some threads of
//! the group that completes a round may give up shortly before it, and then sleep and have to be
//! woken like those of the other group.

use std::ops::Range;

use policy::{Instant, Span};
use serde::Serialize;

use super::rounds::Rounds;

/// A round alternates if at most this share of the expected threads are awake twice.
pub const MAX_REPEAT_SHARE: f64 = 0.25;
/// A round is undecided if fewer threads than this are expected to be awake twice.
pub const MIN_EXPECTED_REPEATS: f64 = 0.5;
/// The amount that a round subtracts if it does not alternate.
pub const PENALTY: u64 = 3;
/// The sum that a stretch must reach.
///
/// If the awake threads are drawn at random, a round alternates with probability 0.61 at most. A
/// stretch from a given round then reaches this sum with probability below 1 in 100 million.
pub const MIN_SUM: u64 = 60;
/// The number of rounds at the beginning of a pattern that decide the group of each thread.
const FIRST_ROUNDS: usize = 20;

/// Where and how a job's threads alternate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternation {
    /// The number of rounds before it.
    pub round: u64,
    /// When its first round completed.
    pub at_ns: Span,
    /// The number of its rounds.
    pub rounds: u64,
    /// When it ended. `None` if it lasts to the end of the run or of the recorded rounds.
    pub until_ns: Option<Span>,
    /// The mean number of threads that pass a round awake: in the rounds of the group that is awake
    /// in the first round, and in the rounds of the other group.
    pub groups: [f64; 2],
    /// The threads of each group in most of the first rounds, by their numbers in the job.
    pub members: [Vec<usize>; 2],
    /// The share of alternating rounds, in percent of the rounds that are not undecided.
    pub alternating_percent: f64,
    /// The share of threads that change sides from one round to the next, in percent. 100 if the
    /// groups are clean.
    pub clean_percent: f64,
    /// The share of threads that are in the same group at the end as at the beginning, in percent.
    /// 50 is expected at random.
    pub kept_percent: f64,
}

impl Alternation {
    /// A sentence without its full stop.
    pub fn words(&self) -> String {
        let span = |span: Span| report::words::time(span.as_nanos() as f64);
        let until = match self.until_ns {
            Some(until) => format!("to {}", span(until)),
            None => "on".to_owned(),
        };
        let [one, other] = self.groups;
        format!(
            "alternating synchronization from {} {until}, groups of {one:.0} and {other:.0}, {:.0} % of the rounds",
            span(self.at_ns),
            self.alternating_percent
        )
    }
}

/// Whether a round alternates with the one before it. `None` if it is undecided.
pub fn is_alternating(rounds: &Rounds, round: usize) -> Option<bool> {
    let expected = (rounds.awake(round - 1) * rounds.awake(round)) as f64 / rounds.threads as f64;
    (expected >= MIN_EXPECTED_REPEATS).then(|| rounds.awake_twice(round) as f64 <= MAX_REPEAT_SHARE * expected)
}

/// Finds the longest alternation in these rounds.
pub fn find(rounds: &Rounds) -> Option<Alternation> {
    let (first, last) = stretch((1..rounds.at.len()).map(|round| is_alternating(rounds, round)))?;
    // Item 0 is round 1, which alternates with round 0.
    let all = first..last + 2;
    let turns = || all.clone().skip(1);
    let decided: Vec<bool> = turns().filter_map(|round| is_alternating(rounds, round)).collect();
    let alternating = decided.iter().filter(|is| **is).count();
    let changes: usize = turns().map(|round| rounds.changes(round)).sum();
    let groups = Groups::new(rounds, all.clone());
    let window = FIRST_ROUNDS.min(all.len());
    let at_first = groups.of_threads(all.start..all.start + window);
    let at_last = groups.of_threads(all.end - window..all.end);
    let kept = at_first.iter().zip(&at_last).filter(|(first, last)| first == last).count();
    let (one, other) = (0..rounds.threads).partition(|&thread| at_first[thread]);
    let percent = |part: usize, of: usize| 100.0 * part as f64 / of as f64;
    let since_start = |round: usize| rounds.at[round].since(Instant::ZERO);
    Some(Alternation {
        round: first as u64,
        at_ns: since_start(first),
        rounds: all.len() as u64,
        until_ns: (all.end < rounds.at.len()).then(|| since_start(all.end - 1)),
        groups: [groups.awake(true), groups.awake(false)],
        members: [one, other],
        alternating_percent: percent(alternating, decided.len()),
        clean_percent: percent(changes, turns().count() * rounds.threads),
        kept_percent: percent(kept, rounds.threads),
    })
}

/// The group that is awake in each of some rounds.
struct Groups<'a> {
    rounds: &'a Rounds,
    all: Range<usize>,
    /// Whether it is the group that is awake in the first of them.
    is_first: Vec<bool>,
}

impl<'a> Groups<'a> {
    /// The groups take turns in every round, unless most of the awake threads stay awake.
    fn new(rounds: &'a Rounds, all: Range<usize>) -> Groups<'a> {
        let stays = |round: usize| 2 * rounds.awake_twice(round) > rounds.awake(round - 1);
        let mut is_first = vec![true];
        for round in all.clone().skip(1) {
            is_first.push(is_first[is_first.len() - 1] == stays(round));
        }
        Groups { rounds, all, is_first }
    }

    /// The mean number of awake threads in the rounds of a group.
    fn awake(&self, first: bool) -> f64 {
        let turns = || self.all.clone().zip(&self.is_first).filter(|(_, is)| **is == first);
        turns().map(|(round, _)| self.rounds.awake(round)).sum::<usize>() as f64 / turns().count() as f64
    }

    /// For each thread, whether it is awake with the first group in most of these rounds.
    fn of_threads(&self, some: Range<usize>) -> Vec<bool> {
        let agrees = |thread: usize| {
            let is_with = |round: &usize| self.rounds.is_awake(*round, thread) == self.is_first[round - self.all.start];
            2 * some.clone().filter(is_with).count() >= some.len()
        };
        (0..self.rounds.threads).map(agrees).collect()
    }
}

/// The first and last item of the stretch with the largest sum, and of several the longest.
fn stretch(alternating: impl Iterator<Item = Option<bool>>) -> Option<(usize, usize)> {
    let (mut sum, mut begin) = (0, 0);
    let mut best = (MIN_SUM, None);
    for (number, alternates) in alternating.enumerate() {
        match alternates {
            // Undecided rounds neither begin nor end a stretch.
            None if sum == 0 => begin = number + 1,
            None => continue,
            Some(true) => sum += 1,
            Some(false) if sum >= PENALTY => sum -= PENALTY,
            Some(false) => (sum, begin) = (0, number + 1),
        }
        if sum >= best.0 && alternates == Some(true) {
            best = (sum, Some((begin, number)));
        }
    }
    best.1
}

#[cfg(test)]
mod tests;
