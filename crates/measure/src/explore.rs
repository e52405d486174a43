//! Finds the structure in which a pipelined program runs fastest, by running variants of it.
//!
//! The [`variants`] are made from the program's own report ([`profile`]). They are many and most of
//! them are useless, so few runs are spent on those: *successive halving* (Karnin, Koren and
//! Somekh, Almost Optimal Exploration in Multi-Armed Bandits, ICML 2013). In each heat every
//! remaining variant runs equally often; then the slower half leaves. The program's own structure
//! takes part in all heats. Runs come in blocks. A block holds every variant once, in an order
//! drawn from the seed, and a variant is judged by its ratio to the own structure in the same
//! block, so a machine that gets busier affects both. Unlike in the source, heats do not all cost
//! the same, later heats use all runs so far, and after the first heat the best variants are
//! combined.
//!
//! The fastest of many is partly the luckiest, so its runs in the heats overstate it. Its reported
//! speed-up comes from a *final*: new runs, in pairs with the own structure, that had no part in
//! the choice.
//!
//! This module starts no program and reads no clock; a [`ProgramRunner`] does.

pub mod double;
pub mod json;
pub mod profile;
mod race;
pub mod text;
mod time_limit;
pub mod tries;
pub mod variants;

use std::time::Duration;

use pipeline::structure::Structure;
use serde::Serialize;
use stats::paired::Speedup;

pub use race::explore;
pub use time_limit::parse_time_limit;

/// Runs the program.
pub trait ProgramRunner {
    /// Runs it once in this structure, or in its own if the structure is empty.
    fn run(&mut self, structure: &Structure) -> RunOutcome;

    /// The time since the exploration began.
    fn elapsed(&self) -> Duration;

    /// Is told from time to time how many runs are still to come, if none is cut short.
    fn expect(&mut self, _runs: u64) {}
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum RunOutcome {
    /// The program succeeded.
    Done {
        /// Its duration in seconds.
        seconds: f64,
        /// A digest of its output.
        output: String,
    },
    /// The program failed.
    Failed(String),
    /// It was stopped, and no more runs are wanted.
    Stopped,
}

/// The settings of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExplorationSettings {
    /// The number of pairs in the final.
    pub pairs: u32,
    /// The time limit. The heats end early enough for a final.
    pub limit: Option<Duration>,
    /// The seed of the orders.
    pub seed: u64,
}

/// The results of an exploration.
#[derive(Clone, Debug, PartialEq)]
pub struct Exploration {
    /// The variants in the given order, followed by their combinations.
    pub tried: Vec<TriedVariant>,
    /// The heats.
    pub heats: Vec<Heat>,
    /// The best variant and its final. `None` if no variant was faster than the own structure in
    /// the heats, or if there was no final.
    pub last: Option<FinalComparison>,
    /// How the exploration ended.
    pub end: ExplorationEnd,
}

/// A variant that took part.
#[derive(Clone, Debug, PartialEq)]
pub struct TriedVariant {
    /// The changes.
    pub structure: Structure,
    /// The logarithms of its speed-ups over the own structure, one for each block of the heats.
    pub logarithms: Vec<f64>,
    /// How far it came.
    pub fate: VariantFate,
}

impl TriedVariant {
    fn new(structure: Structure) -> TriedVariant {
        TriedVariant { structure, logarithms: Vec::new(), fate: VariantFate::Entered }
    }

    /// The speed-up over the own structure in the heats, geometric mean. Variants are chosen by it,
    /// so it overstates the best one.
    pub fn ratio(&self) -> Option<f64> {
        Some(stats::mean(&self.logarithms)?.mean.exp())
    }
}

/// How far a variant came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariantFate {
    /// It remained when the heats ended, or never ran if it has no ratio.
    Entered,
    /// It left after this heat, counted from one.
    OutIn(usize),
    /// The program failed in it.
    Failed(String),
    /// The program printed something other than in its own structure, and its output there never
    /// varies.
    OtherOutput,
    /// It was the best.
    Best,
}

/// One heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Heat {
    /// The number of variants.
    pub variants: usize,
    /// The number of blocks of runs that began.
    pub blocks: u32,
}

/// The best variant against the own structure.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalComparison {
    /// The number of the variant.
    pub variant: usize,
    /// Seconds in the own structure and in the variant, right after each other.
    pub pairs: Vec<(f64, f64)>,
}

impl FinalComparison {
    /// The speed-up over the own structure.
    pub fn speedup(&self) -> Option<Speedup> {
        Speedup::of(&self.pairs)
    }
}

/// How an exploration ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplorationEnd {
    /// All runs were made.
    Complete,
    /// The time limit came first.
    TimeIsUp,
    /// It was stopped.
    Stopped,
    /// The program failed in its own structure.
    OwnFailed(String),
}

impl Exploration {
    /// The best variant with its final.
    pub fn best(&self) -> Option<(&TriedVariant, &FinalComparison)> {
        let last = self.last.as_ref()?;
        Some((self.tried.get(last.variant)?, last))
    }
}

#[cfg(test)]
mod fake {
    use super::*;

    /// A program whose runs end as `outcome` says for their number, from 1, and their structure.
    pub(super) struct FakeProgram<F> {
        pub(super) outcome: F,
        pub(super) ran: Vec<String>,
        pub(super) expected: Vec<u64>,
        pub(super) elapsed: f64,
        /// The seconds that a run takes on the clock. `None`: as its outcome says.
        pub(super) run_seconds: Option<f64>,
        pub(super) stop_after: usize,
    }

    impl<F: FnMut(usize, &str) -> RunOutcome> FakeProgram<F> {
        pub(super) fn new(outcome: F) -> FakeProgram<F> {
            let (ran, expected) = (Vec::new(), Vec::new());
            FakeProgram { outcome, ran, expected, elapsed: 0.0, run_seconds: None, stop_after: usize::MAX }
        }
    }

    impl<F: FnMut(usize, &str) -> RunOutcome> ProgramRunner for FakeProgram<F> {
        fn run(&mut self, structure: &Structure) -> RunOutcome {
            if self.ran.len() == self.stop_after {
                return RunOutcome::Stopped;
            }
            self.ran.push(structure.to_string());
            let outcome = (self.outcome)(self.ran.len(), &structure.to_string());
            let seconds = if let RunOutcome::Done { seconds, .. } = &outcome { *seconds } else { 0.0 };
            self.elapsed += self.run_seconds.unwrap_or(seconds);
            outcome
        }

        fn elapsed(&self) -> Duration {
            Duration::from_secs_f64(self.elapsed)
        }

        fn expect(&mut self, runs: u64) {
            self.expected.push(self.ran.len() as u64 + runs);
        }
    }
}
