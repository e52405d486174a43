//! In which structure a pipelined program runs fastest: variants of its own are tried, by turns.
//!
//! What a program is like is told by its own report ([`profile`]); from that the [`variants`] are made. There are many, and most are of no
//! use, so few runs are spent on those: *successive halving* (Karnin, Koren and Somekh, Almost Optimal Exploration in Multi-Armed Bandits,
//! ICML 2013). In a heat every variant that is left runs equally often; then the slower half leaves. The program's own structure takes part in
//! all heats. Runs come in blocks, in each of which everything runs once, in an order drawn from the seed, and a variant is judged
//! by its ratio to the own structure in the same block: a machine that gets busier weighs on both.
//! Other than in the source, heats do not all cost the same, later ones go by all runs so far, and after the first heat the best variants
//! come back in combinations.
//!
//! The fastest of many is partly the luckiest, so its runs in the heats overstate it. What is reported of it comes from a *final*: new runs,
//! in pairs with the own structure, which have had no part in choosing.
//!
//! Nothing here starts a program or looks at a clock: that is for a [`Runner`].

pub mod double;
pub mod json;
pub mod profile;
mod race;
pub mod text;
pub mod tries;
pub mod variants;

use std::time::Duration;

use pipeline::structure::Structure;

use stats;
use stats::paired::Speedup;

pub use race::explore;

/// Who can run the program.
pub trait Runner {
    /// Runs it once in this structure, or in its own where that says nothing.
    fn run(&mut self, structure: &Structure) -> Outcome;

    /// The time since it all began.
    fn elapsed(&self) -> Duration;

    /// Told now and then how many runs are still to come, if none is cut short.
    fn expect(&mut self, _runs: u64) {}
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The program has succeeded.
    Done {
        /// After so many seconds.
        seconds: f64,
        /// What it printed: the same for the same.
        output: String,
    },
    /// It has not.
    Failed(String),
    /// It was stopped by somebody who wants no more runs.
    Stopped,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many pairs there are in the final.
    pub pairs: u32,
    /// How long it all may take. The heats end early enough for a final.
    pub limit: Option<Duration>,
    /// What orders are drawn from.
    pub seed: u64,
}

/// All that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Exploration {
    /// The variants, as they were given, and behind them those that combine them.
    pub tried: Vec<Tried>,
    /// What the heats were.
    pub heats: Vec<Heat>,
    /// The best and its final. Nothing where no variant was faster than the own structure in the heats, or it never came to that.
    pub last: Option<Final>,
    /// How it came to its end.
    pub end: End,
}

/// A variant that took part.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// What it changes.
    pub structure: Structure,
    /// How many times as fast as the own structure it was in each block of the heats, as logarithms.
    pub logarithms: Vec<f64>,
    /// How far it came.
    pub fate: Fate,
}

impl Tried {
    fn new(structure: Structure) -> Tried {
        Tried { structure, logarithms: Vec::new(), fate: Fate::Entered }
    }

    /// How many times as fast as the own structure it was in the heats, geometric mean. It was chosen by this, which makes the best look
    /// better than they are.
    pub fn ratio(&self) -> Option<f64> {
        Some(stats::mean(&self.logarithms)?.mean.exp())
    }
}

/// How far a variant came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was still among the others when the heats ended, or was never run, as its ratio tells.
    Entered,
    /// It left after this heat, counted from one.
    OutIn(usize),
    /// The program failed in it.
    Failed(String),
    /// The program printed something else than in its own structure, in which it always prints the same.
    OtherOutput,
    /// It was the best.
    Best,
}

/// One heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heat {
    /// How many variants took part.
    pub variants: usize,
    /// How many blocks of runs were begun.
    pub blocks: u32,
}

/// The best variant against the own structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Final {
    /// Which of the variants it is.
    pub variant: usize,
    /// Seconds in the own structure, and in this one, right after each other.
    pub pairs: Vec<(f64, f64)>,
}

impl Final {
    /// How many times as fast it is.
    pub fn speedup(&self) -> Option<Speedup> {
        Speedup::of(&self.pairs)
    }
}

/// How an exploration came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All was run.
    Complete,
    /// There was no time for all of it.
    TimeIsUp,
    /// Somebody wanted no more runs.
    Stopped,
    /// The program failed in its own structure.
    OwnFailed(String),
}

impl Exploration {
    /// The best variant with its final.
    pub fn best(&self) -> Option<(&Tried, &Final)> {
        let last = self.last.as_ref()?;
        Some((self.tried.get(last.variant)?, last))
    }
}
