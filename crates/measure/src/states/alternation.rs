//! Alternating synchronisation: the threads of a barrier are in two groups that take turns. One group arrives, spins in vain
//! and falls asleep; the other arrives, completes the round while it spins and wakes the first; in the next round it is the
//! other way round. Source: Tsafrir and Feitelson, section 3.
//!
//! Whoever passes a round awake while the threads alternate falls asleep in the next one: so hardly anybody is awake twice in
//! succession. Threads that run together always are; and if in every round lots were drawn, of `a` threads that were awake in one and
//! `b` in the next out of `s`, `a b / s` would be awake in both. So a round *alternates* if no more than a [`REPEATS`] of that
//! number are, *does not* if more are, and *tells nothing* if lots would leave fewer than [`TELLING`]: as where threads block at once, and only
//! the last to arrive is ever awake.
//!
//! The pattern lasts where alternating rounds outnumber the others by far: each alternating round counts one, any that does not
//! takes [`PENALTY`] away, and the stretch of rounds with the largest sum is it. So no part of it at its beginning or at its end has
//! fewer than three alternating rounds for one of the others, and no stretch around it would be better. A sum below [`LEAST`] is no
//! pattern.
//!
//! Groups need not be *clean*: threads of the group that completes a round which give up shortly before sleep like those of
//! the other, and have to be woken with them. Where groups are clean, all threads change sides in every round.

use std::ops::Range;

use policy::{Instant, Span};
use serde::Serialize;

use super::rounds::Rounds;

/// A round alternates if no more than this share of the threads that lots would keep awake twice are.
pub const REPEATS: f64 = 0.25;
/// A round tells nothing where lots would keep fewer threads awake twice.
pub const TELLING: f64 = 0.5;
/// What a round that does not alternate takes away.
pub const PENALTY: u64 = 3;
/// The sum that a stretch must reach. Lots leave a round alternating with a chance of 0.61 at most, and so reach it from a given round
/// with one of less than 1 in 100 million.
pub const LEAST: u64 = 60;
/// So many rounds at its beginning tell which thread is in which group.
const FIRST: usize = 20;

/// Where and how a job's threads alternate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternation {
    /// How many rounds came before it.
    pub round: u64,
    /// When the first of its rounds was complete.
    pub at_ns: Span,
    /// How many rounds it lasts.
    pub rounds: u64,
    /// When it ended; nothing if that was with the run or with what is known of it.
    pub until_ns: Option<Span>,
    /// How many threads, on average, pass a round awake when it is the turn of the group of its first round, and of the other.
    pub groups: [f64; 2],
    /// The threads by groups, as they were for most of the first rounds, by their numbers in the job.
    pub members: [Vec<usize>; 2],
    /// How many of its rounds alternate, in percent of those that tell.
    pub alternating_percent: f64,
    /// How many of the threads change sides from one of its rounds to the next, in percent: 100 where the groups are clean.
    pub clean_percent: f64,
    /// How many threads of its last rounds are in the group that they were in at first, in percent; 50 is what lots would leave.
    pub kept_percent: f64,
}

impl Alternation {
    /// In a sentence without its end.
    pub fn words(&self) -> String {
        let span = |span: Span| report::words::time(span.as_nanos() as f64);
        let until = match self.until_ns {
            Some(until) => format!("to {}", span(until)),
            None => "on".to_owned(),
        };
        let [one, other] = self.groups;
        format!(
            "alternating synchronisation from {} {until}, groups of {one:.0} and {other:.0}, {:.0} % of the rounds",
            span(self.at_ns),
            self.alternating_percent
        )
    }
}

/// Whether a round that has one before it alternates; nothing where it does not tell.
pub fn is_alternating(rounds: &Rounds, round: usize) -> Option<bool> {
    let by_lots = (rounds.awake(round - 1) * rounds.awake(round)) as f64 / rounds.threads() as f64;
    (by_lots >= TELLING).then(|| rounds.awake_twice(round) as f64 <= REPEATS * by_lots)
}

/// Where the threads of these rounds alternate, if they do.
pub fn find(rounds: &Rounds) -> Option<Alternation> {
    let (first, last) = stretch((1..rounds.len()).map(|round| is_alternating(rounds, round)))?;
    // Item 0 is round 1, and the first of the rounds is the one that the second alternates with.
    let all = first..last + 2;
    let turns = || all.clone().skip(1);
    let telling: Vec<bool> = turns().filter_map(|round| is_alternating(rounds, round)).collect();
    let alternating = telling.iter().filter(|is| **is).count();
    let changes: usize = turns().map(|round| rounds.changes(round)).sum();
    let groups = Groups::new(rounds, all.clone());
    let window = FIRST.min(all.len());
    let at_first = groups.of_threads(all.start..all.start + window);
    let at_last = groups.of_threads(all.end - window..all.end);
    let kept = at_first.iter().zip(&at_last).filter(|(first, last)| first == last).count();
    let (one, other) = (0..rounds.threads()).partition(|&thread| at_first[thread]);
    let percent = |part: usize, of: usize| 100.0 * part as f64 / of as f64;
    let since_start = |round| rounds.at(round).since(Instant::ZERO);
    Some(Alternation {
        round: first as u64,
        at_ns: since_start(first),
        rounds: all.len() as u64,
        until_ns: (all.end < rounds.len()).then(|| since_start(all.end - 1)),
        groups: [groups.awake(true), groups.awake(false)],
        members: [one, other],
        alternating_percent: percent(alternating, telling.len()),
        clean_percent: percent(changes, turns().count() * rounds.threads()),
        kept_percent: percent(kept, rounds.threads()),
    })
}

/// Whose turn it is in each of some rounds.
struct Groups<'a> {
    rounds: &'a Rounds,
    all: Range<usize>,
    /// Whether it is that of the group of the first of them.
    is_first: Vec<bool>,
}

impl<'a> Groups<'a> {
    /// It is the other group's turn in every round, unless most of those who were awake are so again.
    fn new(rounds: &'a Rounds, all: Range<usize>) -> Groups<'a> {
        let stays = |round: usize| 2 * rounds.awake_twice(round) > rounds.awake(round - 1);
        let mut is_first = vec![true];
        for round in all.clone().skip(1) {
            is_first.push(is_first[is_first.len() - 1] == stays(round));
        }
        Groups { rounds, all, is_first }
    }

    /// How many threads are awake, on average, in the turns of a group.
    fn awake(&self, first: bool) -> f64 {
        let turns = || self.all.clone().zip(&self.is_first).filter(|(_, is)| **is == first);
        turns().map(|(round, _)| self.rounds.awake(round)).sum::<usize>() as f64 / turns().count() as f64
    }

    /// Of each thread, whether it is with the first group in most of these rounds.
    fn of_threads(&self, some: Range<usize>) -> Vec<bool> {
        let agrees = |thread: usize| {
            let is_with = |round: &usize| self.rounds.is_awake(*round, thread) == self.is_first[round - self.all.start];
            2 * some.clone().filter(is_with).count() >= some.len()
        };
        (0..self.rounds.threads()).map(agrees).collect()
    }
}

/// The first and the last item of the stretch with the largest sum; the longest of several.
fn stretch(alternating: impl Iterator<Item = Option<bool>>) -> Option<(usize, usize)> {
    let (mut sum, mut begin) = (0, 0);
    let mut best = (LEAST, None);
    for (number, alternates) in alternating.enumerate() {
        match alternates {
            // What tells nothing neither begins nor ends a stretch.
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
