//! The heats and the final.

use std::collections::BTreeSet;
use std::time::Duration;

use pipeline::structure::Structure;

use crate::interleaving::{runs_first, shuffle};

use super::variants::combinations;
use super::{End, Exploration, Fate, Final, Heat, Outcome, Runner, Settings, Tried};

/// Once so few are left, the heat is the last.
const FEW: usize = 4;
/// How many of the best come back in combinations after the first heat.
const COMBINED: usize = 3;
/// A final cut short by the limit has so many pairs at least: with fewer an interval says nothing.
const FEWEST_PAIRS: u32 = 3;

/// How many blocks a heat has, counted from one: the fewer are left, the more.
const fn blocks(heat: usize) -> u32 {
    if heat < 3 { 2 } else { 4 }
}

/// Tries these variants. `first` is a run in the own structure that was made before, which tells how long a run takes and what it prints.
pub fn explore(
    variants: Vec<Structure>,
    first: (f64, String),
    settings: Settings,
    runner: &mut dyn Runner,
) -> Exploration {
    let (seconds, output) = first;
    let tried = variants.into_iter().map(Tried::new).collect();
    let mut race =
        Race { tried, heats: Vec::new(), settings, runner, outputs: BTreeSet::from([output]), took: vec![seconds] };
    let mut last = None;
    let end = race.run(&mut last).err().unwrap_or(End::Complete);
    Exploration { tried: race.tried, heats: race.heats, last, end }
}

struct Race<'a> {
    tried: Vec<Tried>,
    heats: Vec<Heat>,
    settings: Settings,
    runner: &'a mut dyn Runner,
    /// All that the program ever printed in its own structure.
    outputs: BTreeSet<String>,
    /// How long runs took, whatever their structure.
    took: Vec<f64>,
}

/// Who takes part in a block: the own structure, or a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entrant {
    Own,
    Variant(usize),
}

impl Race<'_> {
    /// Errors are early ends.
    fn run(&mut self, last: &mut Option<Final>) -> Result<(), End> {
        // Who has no rivals need not be chosen.
        let in_time = if self.tried.len() > 1 { self.heats()? } else { Ok(()) };
        // Who fails in the final gives way to the next.
        while let Some(best) = self.best() {
            self.tried[best].fate = Fate::Best;
            self.decide(last.insert(Final { variant: best, pairs: Vec::new() }))?;
            if self.tried[best].fate == Fate::Best {
                break;
            }
            *last = None;
        }
        in_time
    }

    /// The heats. The inner result says whether there was time for all of them.
    fn heats(&mut self) -> Result<Result<(), End>, End> {
        loop {
            let (number, left) = (self.heats.len() + 1, self.left());
            self.heats.push(Heat { variants: left.len(), blocks: 0 });
            for block in 0..blocks(number) {
                let left = self.left().len();
                if left == 0 {
                    break;
                }
                let made = u64::from(block) * (left as u64 + 1);
                self.runner.expect(ahead(left, number) - made + 2 * u64::from(self.settings.pairs));
                if let Some(heat) = self.heats.last_mut() {
                    heat.blocks += 1;
                }
                if self.block()? == Time::Up {
                    return Ok(Err(End::TimeIsUp));
                }
            }
            let ranked = self.ranked();
            if ranked.len() <= FEW {
                return Ok(Ok(()));
            }
            for &slower in &ranked[ranked.len().div_ceil(2)..] {
                self.tried[slower].fate = Fate::OutIn(number);
            }
            if number == 1 {
                let faster = ranked.iter().filter(|&&variant| self.mean(variant).is_some_and(|mean| mean > 0.0));
                let best: Vec<Structure> =
                    faster.take(COMBINED).map(|&variant| self.tried[variant].structure.clone()).collect();
                let known: Vec<Structure> = self.tried.iter().map(|tried| tried.structure.clone()).collect();
                let new = combinations(&best).into_iter().filter(|structure| !known.contains(structure));
                self.tried.extend(new.map(Tried::new));
            }
        }
    }

    /// Everything that is left, once.
    fn block(&mut self) -> Result<Time, End> {
        let mut order: Vec<Entrant> = self.left().into_iter().map(Entrant::Variant).chain([Entrant::Own]).collect();
        let number: u32 = self.heats.iter().map(|heat| heat.blocks).sum();
        shuffle(&mut order, self.settings.seed, number);
        let (mut own, mut others, mut time) = (None, Vec::new(), Time::Left);
        for entrant in order {
            // The own structure runs in any case: without it the others' runs are lost.
            if time == Time::Left {
                time = self.time_for(if own.is_none() { 2 } else { 1 });
            }
            match entrant {
                Entrant::Own => own = Some(self.own()?),
                Entrant::Variant(variant) if time == Time::Left => {
                    others.extend(self.variant(variant)?.map(|found| (variant, found)));
                }
                Entrant::Variant(_) => {}
            }
        }
        let own_seconds = own.unwrap_or_default();
        for (variant, (seconds, output)) in others {
            if self.is_other(&output) {
                self.tried[variant].fate = Fate::OtherOutput;
            } else if own_seconds > 0.0 && seconds > 0.0 {
                self.tried[variant].logarithms.push((own_seconds / seconds).ln());
            }
        }
        Ok(time)
    }

    /// The final.
    fn decide(&mut self, last: &mut Final) -> Result<(), End> {
        let Settings { pairs, seed, .. } = self.settings;
        for number in 0..pairs {
            self.runner.expect(2 * u64::from(pairs - number));
            if number >= FEWEST_PAIRS && self.over(2) {
                return Err(End::TimeIsUp);
            }
            let before = if runs_first(seed, number) { Some(self.own()?) } else { None };
            let Some((seconds, output)) = self.variant(last.variant)? else { return Ok(()) };
            let own = before.map_or_else(|| self.own(), Ok)?;
            if self.is_other(&output) {
                self.tried[last.variant].fate = Fate::OtherOutput;
                return Ok(());
            }
            last.pairs.push((own, seconds));
        }
        Ok(())
    }

    fn own(&mut self) -> Result<f64, End> {
        match self.runner.run(&Structure::default()) {
            Outcome::Done { seconds, output } => {
                self.outputs.insert(output);
                self.took.push(seconds);
                Ok(seconds)
            }
            Outcome::Failed(why) => Err(End::OwnFailed(why)),
            Outcome::Stopped => Err(End::Stopped),
        }
    }

    /// A run of a variant; nothing if the program fails, and then never again.
    fn variant(&mut self, variant: usize) -> Result<Option<(f64, String)>, End> {
        match self.runner.run(&self.tried[variant].structure) {
            Outcome::Done { seconds, output } => {
                self.took.push(seconds);
                Ok(Some((seconds, output)))
            }
            Outcome::Failed(why) => {
                self.tried[variant].fate = Fate::Failed(why);
                Ok(None)
            }
            Outcome::Stopped => Err(End::Stopped),
        }
    }

    /// Whether this is not what the program prints. One that never prints the same twice says nothing.
    fn is_other(&self, output: &str) -> bool {
        self.outputs.len() == 1 && !self.outputs.contains(output)
    }

    fn left(&self) -> Vec<usize> {
        (0..self.tried.len()).filter(|&variant| self.tried[variant].fate == Fate::Entered).collect()
    }

    fn mean(&self, variant: usize) -> Option<f64> {
        self.tried[variant].ratio().map(f64::ln)
    }

    /// Those that are left, the fastest first, and those that never ran last.
    fn ranked(&self) -> Vec<usize> {
        let mut left = self.left();
        let mean = |variant: &usize| self.mean(*variant).unwrap_or(f64::NEG_INFINITY);
        left.sort_by(|one, other| mean(other).total_cmp(&mean(one)));
        left
    }

    /// Who goes to the final: the fastest, if it is faster than the own structure, or the only one there is.
    fn best(&self) -> Option<usize> {
        if self.tried.len() == 1 {
            return self.left().first().copied();
        }
        self.ranked().first().copied().filter(|&variant| self.mean(variant).is_some_and(|mean| mean > 0.0))
    }

    /// Whether so many runs, and a final after them, would still be in time.
    fn time_for(&self, runs: u32) -> Time {
        if self.over(runs + 2 * self.settings.pairs) { Time::Up } else { Time::Left }
    }

    /// Whether the limit would come before so many runs have ended.
    fn over(&self, runs: u32) -> bool {
        let mean = self.took.iter().sum::<f64>() / self.took.len().max(1) as f64;
        let needed = Duration::try_from_secs_f64(mean * f64::from(runs)).unwrap_or(Duration::MAX);
        self.settings.limit.is_some_and(|limit| self.runner.elapsed().saturating_add(needed) > limit)
    }
}

/// Whether there is time left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Left,
    Up,
}

/// How many runs are to come in the heats, from the beginning of this one on; combinations that come back are not known beforehand.
fn ahead(mut left: usize, mut heat: usize) -> u64 {
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
