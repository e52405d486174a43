//! The runs of a paper's scenario, and what is measured of each.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use scenario::result::{JobOutcome, Run};
use scenario::{Arm, Machine, Scenario, Setting};

use super::expected::{Group, Measure};
use super::transition::{self, Transition};
use crate::sample::Figure;
use crate::summary::{self, Factors};
use crate::workers;

/// The runs, by arm and repetition.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    scenario: &'a Scenario,
    job: &'a str,
    factors: Vec<Factors>,
    runs: Vec<BTreeMap<u32, &'a Run>>,
    transitions: BTreeMap<(usize, u32), Option<Transition>>,
}

/// A measure and the factors of the rival that it takes.
pub type Measured<'a> = (Measure, &'a BTreeMap<String, toml::Value>);

impl<'a> Evidence<'a> {
    /// Sorts the runs of a scenario; everything is measured of the job of this name.
    pub fn new(scenario: &'a Scenario, job: &'a str, runs: &'a [Run]) -> Evidence<'a> {
        let factors: Vec<Factors> = scenario.arms.iter().map(summary::factors).collect();
        let number: BTreeMap<String, usize> =
            factors.iter().enumerate().map(|(arm, factors)| (key(factors), arm)).collect();
        let mut by_arm = vec![BTreeMap::new(); factors.len()];
        for run in runs {
            if let Some(&arm) = number.get(&key(&run.factors)) {
                by_arm[arm].insert(run.repeat, run);
            }
        }
        Evidence { scenario, job, factors, runs: by_arm, transitions: BTreeMap::new() }
    }

    /// Simulates all runs once more, on so many threads, to look for their transition points. It stops soon after `cancel` has
    /// become true; the runs that were not looked through then have none of the measures that need it.
    ///
    /// # Errors
    ///
    /// As [`sim::run`].
    pub fn with_transitions(self, workers: NonZeroUsize, cancel: &AtomicBool) -> Result<Evidence<'a>, sim::Error> {
        let numbered = |(arm, runs): (usize, &BTreeMap<u32, &'a Run>)| {
            runs.iter().map(move |(repeat, run)| (arm, *repeat, run.seed)).collect::<Vec<_>>()
        };
        let runs: Vec<(usize, u32, u64)> = self.runs.iter().enumerate().flat_map(numbered).collect();
        let find = |(arm, repeat, seed): (usize, u32, u64)| -> Option<Result<_, sim::Error>> {
            let setting = &self.scenario.arms[arm].setting;
            let found = || transition::find(&machine(setting), setting, seed, self.job);
            let go_on = !cancel.load(Ordering::Relaxed);
            go_on.then(|| Ok(((arm, repeat), found()?)))
        };
        let transitions: Result<_, sim::Error> =
            workers::in_order(runs.into_iter(), workers, find, |found| found.flatten().collect());
        Ok(Evidence { transitions: transitions?, ..self })
    }

    /// All runs that were looked through for a transition point, and what was found.
    pub fn transitions(&self) -> impl Iterator<Item = (usize, u32, Option<Transition>)> {
        self.transitions.iter().map(|(&(arm, repeat), &found)| (arm, repeat, found))
    }

    /// The scenario.
    pub fn scenario(&self) -> &'a Scenario {
        self.scenario
    }

    /// The factors of an arm.
    pub fn factors(&self, arm: usize) -> &Factors {
        &self.factors[arm]
    }

    /// The runs of an arm, by repetition.
    pub fn runs(&self, arm: usize) -> &BTreeMap<u32, &'a Run> {
        &self.runs[arm]
    }

    fn transition(&self, arm: usize, repeat: u32) -> Option<&Transition> {
        self.transitions.get(&(arm, repeat))?.as_ref()
    }

    /// The arms of a group.
    pub fn arms(&self, group: &Group) -> Vec<usize> {
        let is_selected = |arm: &usize| {
            let among = |(path, values): (&String, &Vec<toml::Value>)| {
                self.factors[*arm].get(path).is_some_and(|value| values.contains(value))
            };
            group.select.iter().all(among) && group.threads.allow(threads(&self.scenario.arms[*arm]))
        };
        (0..self.factors.len()).filter(is_selected).collect()
    }

    /// The measure in every repetition of an arm that has it.
    pub fn values(&self, arm: usize, measured: Measured<'_>) -> BTreeMap<u32, f64> {
        let value = |repeat: &u32| Some((*repeat, self.value(arm, *repeat, measured)?));
        self.runs[arm].keys().filter_map(value).collect()
    }

    fn value(&self, arm: usize, repeat: u32, (measure, against): Measured<'_>) -> Option<f64> {
        match measure {
            Measure::Ssr => self.figure(Figure::Ssr, arm, repeat),
            Measure::SpeedUp => {
                let own = self.figure(Figure::Completion, arm, repeat).filter(|own| *own > 0.0)?;
                Some(self.figure(Figure::Completion, self.rival(arm, against)?, repeat)? / own)
            }
            Measure::Transition => {
                self.transitions.get(&(arm, repeat)).map(|found| if found.is_some() { 100.0 } else { 0.0 })
            }
            Measure::SsrBefore => self.transition(arm, repeat).map(|found| found.before_percent),
            Measure::SsrAfter => self.transition(arm, repeat).map(|found| found.after_percent),
        }
    }

    /// The arm whose factors are the same but for these.
    pub fn rival(&self, arm: usize, against: &BTreeMap<String, toml::Value>) -> Option<usize> {
        let mut factors = self.factors[arm].clone();
        factors.extend(against.clone());
        self.factors.iter().position(|other| *other == factors)
    }

    fn figure(&self, figure: Figure, arm: usize, repeat: u32) -> Option<f64> {
        let is_copy = |job: &&JobOutcome| {
            let rest = job.job.strip_prefix(self.job);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let jobs = self.runs[arm].get(&repeat)?.outcome.jobs.iter().filter(is_copy);
        let values: Vec<f64> = jobs.filter_map(|job| figure.of(job)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

fn key(factors: &Factors) -> String {
    crate::words::factors(factors)
}

/// How many threads there are in all.
pub fn threads(arm: &Arm) -> u64 {
    let of = |job: &scenario::Job| u64::from(job.copies) * u64::from(job.kind.threads());
    arm.setting.jobs.iter().map(of).sum()
}

/// The simulated machine of a setting that is not like the host.
pub fn machine(setting: &Setting) -> Machine {
    setting.machine.complete(&Machine::with_cpus(setting.machine.cpus.unwrap_or(1)))
}
