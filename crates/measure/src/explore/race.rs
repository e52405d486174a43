//! The heats and the final.

use std::collections::BTreeSet;
use std::time::Duration;

use pipeline::structure::Structure;

use crate::interleaving::{runs_first, shuffle};

use super::variants::combinations;
use super::{
    Exploration, ExplorationEnd, ExplorationSettings, FinalComparison, Heat, ProgramRunner, RunOutcome, TriedVariant,
    VariantFate,
};

/// With at most this many variants a heat is the last.
const FEW: usize = 4;
/// The number of the best variants that are combined after the first heat.
const COMBINED: usize = 3;
/// The fewest pairs of a final that the limit cuts short. With fewer, an interval says nothing.
const FEWEST_PAIRS: u32 = 3;

/// The number of blocks of a heat, counted from one. Later heats have more blocks.
const fn blocks(heat: usize) -> u32 {
    if heat < 3 { 2 } else { 4 }
}

/// Explores these variants. `first` is the duration and output of an earlier unchanged run.
pub fn explore(
    variants: Vec<Structure>,
    first: (f64, String),
    settings: ExplorationSettings,
    runner: &mut dyn ProgramRunner,
) -> Exploration {
    let (seconds, output) = first;
    let tried = variants.into_iter().map(TriedVariant::new).collect();
    let mut race = Race {
        tried,
        heats: Vec::new(),
        settings,
        runner,
        outputs: BTreeSet::from([output]),
        durations: vec![seconds],
    };
    let mut last = None;
    let end = race.run(&mut last).err().unwrap_or(ExplorationEnd::Complete);
    Exploration { tried: race.tried, heats: race.heats, last, end }
}

struct Race<'a> {
    tried: Vec<TriedVariant>,
    heats: Vec<Heat>,
    settings: ExplorationSettings,
    runner: &'a mut dyn ProgramRunner,
    /// The distinct outputs of the program in its own structure.
    outputs: BTreeSet<String>,
    /// The durations of all runs, regardless of their structure.
    durations: Vec<f64>,
}

impl Race<'_> {
    /// Runs the heats and the final. An error is an early end.
    fn run(&mut self, last: &mut Option<FinalComparison>) -> Result<(), ExplorationEnd> {
        // A single variant need not be chosen.
        let is_in_time = self.tried.len() < 2 || self.run_heats()?;
        // If a variant fails in the final, the next one replaces it.
        while let Some(best) = self.best() {
            self.tried[best].fate = VariantFate::Best;
            self.run_final(last.insert(FinalComparison { variant: best, pairs: Vec::new() }))?;
            if self.tried[best].fate == VariantFate::Best {
                break;
            }
            *last = None;
        }
        if is_in_time { Ok(()) } else { Err(ExplorationEnd::TimeIsUp) }
    }

    /// Runs the heats. Returns whether there was time for all of them.
    fn run_heats(&mut self) -> Result<bool, ExplorationEnd> {
        loop {
            let (number, left) = (self.heats.len() + 1, self.left());
            self.heats.push(Heat { variants: left.len(), blocks: 0 });
            for block in 0..blocks(number) {
                let left = self.left().len();
                if left == 0 {
                    break;
                }
                let made = u64::from(block) * (left as u64 + 1);
                self.runner.expect(runs_ahead(left, number) - made + 2 * u64::from(self.settings.pairs));
                if let Some(heat) = self.heats.last_mut() {
                    heat.blocks += 1;
                }
                if !self.run_block()? {
                    return Ok(false);
                }
            }
            let ranked = self.ranked();
            if ranked.len() <= FEW {
                return Ok(true);
            }
            for &slower in &ranked[ranked.len().div_ceil(2)..] {
                self.tried[slower].fate = VariantFate::OutIn(number);
            }
            if number == 1 {
                let faster = ranked.iter().filter(|&&variant| self.mean(variant).is_some_and(|mean| mean > 0.0));
                let best: Vec<Structure> =
                    faster.take(COMBINED).map(|&variant| self.tried[variant].structure.clone()).collect();
                let known: Vec<Structure> = self.tried.iter().map(|tried| tried.structure.clone()).collect();
                let new = combinations(&best).into_iter().filter(|structure| !known.contains(structure));
                self.tried.extend(new.map(TriedVariant::new));
            }
        }
    }

    /// Runs the remaining variants and the own structure (`None`). Returns whether all had time.
    fn run_block(&mut self) -> Result<bool, ExplorationEnd> {
        let mut order: Vec<Option<usize>> = self.left().into_iter().map(Some).chain([None]).collect();
        let number: u32 = self.heats.iter().map(|heat| heat.blocks).sum();
        shuffle(&mut order, self.settings.seed, number);
        let (mut own, mut others, mut is_in_time) = (None, Vec::new(), true);
        for variant in order {
            // The own structure runs in any case: without it the runs of the others are useless.
            let needed = if own.is_none() { 2 } else { 1 };
            is_in_time = is_in_time && !self.exceeds_limit(needed + 2 * self.settings.pairs);
            match variant {
                None => own = Some(self.run_own()?),
                Some(variant) if is_in_time => {
                    others.extend(self.run_variant(variant)?.map(|found| (variant, found)));
                }
                Some(_) => {}
            }
        }
        let own_seconds = own.unwrap_or_default();
        for (variant, (seconds, output)) in others {
            if self.is_other(&output) {
                self.tried[variant].fate = VariantFate::OtherOutput;
            } else if own_seconds > 0.0 && seconds > 0.0 {
                self.tried[variant].logarithms.push((own_seconds / seconds).ln());
            }
        }
        Ok(is_in_time)
    }

    /// Runs the final.
    fn run_final(&mut self, last: &mut FinalComparison) -> Result<(), ExplorationEnd> {
        let ExplorationSettings { pairs, seed, .. } = self.settings;
        for number in 0..pairs {
            self.runner.expect(2 * u64::from(pairs - number));
            if number >= FEWEST_PAIRS && self.exceeds_limit(2) {
                return Err(ExplorationEnd::TimeIsUp);
            }
            let before = if runs_first(seed, number) { Some(self.run_own()?) } else { None };
            let Some((seconds, output)) = self.run_variant(last.variant)? else { return Ok(()) };
            let own = before.map_or_else(|| self.run_own(), Ok)?;
            if self.is_other(&output) {
                self.tried[last.variant].fate = VariantFate::OtherOutput;
                return Ok(());
            }
            last.pairs.push((own, seconds));
        }
        Ok(())
    }

    fn run_own(&mut self) -> Result<f64, ExplorationEnd> {
        match self.runner.run(&Structure::default()) {
            RunOutcome::Done { seconds, output } => {
                self.outputs.insert(output);
                self.durations.push(seconds);
                Ok(seconds)
            }
            RunOutcome::Failed(why) => Err(ExplorationEnd::OwnFailed(why)),
            RunOutcome::Stopped => Err(ExplorationEnd::Stopped),
        }
    }

    /// Runs a variant. `None` if the program fails; the variant then never runs again.
    fn run_variant(&mut self, variant: usize) -> Result<Option<(f64, String)>, ExplorationEnd> {
        match self.runner.run(&self.tried[variant].structure) {
            RunOutcome::Done { seconds, output } => {
                self.durations.push(seconds);
                Ok(Some((seconds, output)))
            }
            RunOutcome::Failed(why) => {
                self.tried[variant].fate = VariantFate::Failed(why);
                Ok(None)
            }
            RunOutcome::Stopped => Err(ExplorationEnd::Stopped),
        }
    }

    /// Whether the program prints something else in its own structure. A program whose output
    /// varies there is not checked.
    fn is_other(&self, output: &str) -> bool {
        self.outputs.len() == 1 && !self.outputs.contains(output)
    }

    /// The remaining variants.
    fn left(&self) -> Vec<usize> {
        (0..self.tried.len()).filter(|&variant| self.tried[variant].fate == VariantFate::Entered).collect()
    }

    fn mean(&self, variant: usize) -> Option<f64> {
        self.tried[variant].ratio().map(f64::ln)
    }

    /// The remaining variants, the fastest first, and those that never ran last.
    fn ranked(&self) -> Vec<usize> {
        let mut left = self.left();
        let mean = |variant: &usize| self.mean(*variant).unwrap_or(f64::NEG_INFINITY);
        left.sort_by(|one, other| mean(other).total_cmp(&mean(one)));
        left
    }

    /// The variant for the final: the fastest, if faster than the own structure, or the only one.
    fn best(&self) -> Option<usize> {
        if self.tried.len() == 1 {
            return self.left().first().copied();
        }
        self.ranked().first().copied().filter(|&variant| self.mean(variant).is_some_and(|mean| mean > 0.0))
    }

    /// Whether this many more runs would exceed the time limit.
    fn exceeds_limit(&self, runs: u32) -> bool {
        let mean = self.durations.iter().sum::<f64>() / self.durations.len().max(1) as f64;
        let needed = Duration::try_from_secs_f64(mean * f64::from(runs)).unwrap_or(Duration::MAX);
        self.settings.limit.is_some_and(|limit| self.runner.elapsed().saturating_add(needed) > limit)
    }
}

/// The number of runs in this heat and the later ones, without combinations.
fn runs_ahead(mut left: usize, mut heat: usize) -> u64 {
    let mut runs = 0;
    loop {
        runs += (left as u64 + 1) * u64::from(blocks(heat));
        if left <= FEW {
            return runs;
        }
        (left, heat) = (left.div_ceil(2), heat + 1);
    }
}

#[cfg(test)]
mod tests;
