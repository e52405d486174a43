//! The runs of a paper's scenario, and what is measured in each.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use scenario::result::{JobOutcome, Run};
use scenario::{Arm, Machine, Scenario, Setting};

use super::expected::{ArmGroup, LoadUnit, Measure};
use super::patterns::{self, Patterns};
use measure::factor::{self, Factors};
use measure::sample::JobQuantity;
use measure::workers;

/// The runs, by arm and repetition.
#[derive(Clone, Debug)]
pub struct Evidence<'a> {
    pub(super) scenario: &'a Scenario,
    /// The factors of each arm.
    pub(super) factors: Vec<Factors>,
    /// The runs of each arm, by repetition.
    pub(super) runs: Vec<BTreeMap<u32, &'a Run>>,
    /// The patterns by arm and repetition.
    pub(super) patterns: BTreeMap<(usize, u32), Patterns>,
}

/// A measure of some jobs in a run.
#[derive(Clone, Copy, Debug)]
pub struct Quantity<'a> {
    /// The jobs.
    pub jobs: &'a [String],
    /// The measure.
    pub measure: Measure,
    /// The factors of the reference, for measures that need one.
    pub against: &'a BTreeMap<String, toml::Value>,
}

/// The load of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The total number of threads.
    pub threads: u64,
    /// The number of CPUs of the machine.
    pub cpus: u32,
}

impl Load {
    /// The load as a number.
    pub fn counted(self, counted: LoadUnit) -> f64 {
        let (threads, cpus) = (self.threads as f64, f64::from(self.cpus));
        match counted {
            LoadUnit::Threads => threads,
            LoadUnit::ThreadsPerCpu => threads / cpus,
            LoadUnit::ExtraThreads => threads - cpus,
        }
    }
}

impl<'a> Evidence<'a> {
    /// Groups the runs of a scenario.
    pub fn new(scenario: &'a Scenario, runs: &'a [Run]) -> Evidence<'a> {
        let factors: Vec<Factors> = scenario.arms.iter().map(factor::of).collect();
        let key = |factors: &Factors| report::words::factors(factors);
        let number: BTreeMap<String, usize> = factors.iter().map(key).zip(0..).collect();
        let mut by_arm = vec![BTreeMap::new(); factors.len()];
        for run in runs {
            if let Some(&arm) = number.get(&key(&run.factors)) {
                by_arm[arm].insert(run.repeat, run);
            }
        }
        Evidence { scenario, factors, runs: by_arm, patterns: BTreeMap::new() }
    }

    /// Simulates all runs again, on `workers` threads, and looks for the patterns of the first of
    /// these jobs.
    ///
    /// Stops soon after `cancel` becomes true. The remaining runs then lack the measures that need
    /// patterns.
    ///
    /// # Errors
    ///
    /// Those of [`sim::run`].
    pub fn with_patterns(
        self,
        jobs: &[String],
        workers: NonZeroUsize,
        cancel: &AtomicBool,
    ) -> Result<Evidence<'a>, sim::Error> {
        let job = jobs.first().map_or("", String::as_str);
        let numbered = |(arm, runs): (usize, &BTreeMap<u32, &'a Run>)| {
            runs.iter().map(move |(repeat, run)| (arm, *repeat, run.seed)).collect::<Vec<_>>()
        };
        let runs: Vec<(usize, u32, u64)> = self.runs.iter().enumerate().flat_map(numbered).collect();
        let find = |(arm, repeat, seed): (usize, u32, u64)| -> Option<Result<_, sim::Error>> {
            let setting = &self.scenario.arms[arm].setting;
            let is_cancelled = cancel.load(Ordering::Relaxed);
            (!is_cancelled).then(|| Ok(((arm, repeat), patterns::find(&machine(setting), setting, seed, job)?)))
        };
        let patterns: Result<_, sim::Error> =
            workers::in_order(runs.into_iter(), workers, find, |found| found.flatten().collect());
        Ok(Evidence { patterns: patterns?, ..self })
    }

    /// Whether all runs were searched for patterns.
    pub fn is_searched(&self) -> bool {
        self.patterns.len() == self.runs.iter().map(BTreeMap::len).sum::<usize>()
    }

    /// All runs that were searched for patterns, with the patterns found.
    pub fn patterns(&self) -> impl Iterator<Item = (usize, u32, &Patterns)> {
        self.patterns.iter().map(|(&(arm, repeat), found)| (arm, repeat, found))
    }

    /// The value of an arm on an axis.
    pub fn axis_value(&self, arm: usize, x: &str) -> Option<toml::Value> {
        let of = &self.scenario.arms[arm];
        factor::axis_value(x, &self.factors[arm], threads(of), machine(&of.setting).cpus)
    }

    /// The arms of a group.
    pub fn arms(&self, group: &ArmGroup) -> Vec<usize> {
        let is_selected = |arm: &usize| {
            let among = |(path, values): (&String, &Vec<toml::Value>)| {
                factor::value(&self.factors[*arm], path).is_some_and(|value| values.contains(value))
            };
            group.select.iter().all(among) && group.threads.matches(threads(&self.scenario.arms[*arm]))
        };
        (0..self.factors.len()).filter(is_selected).collect()
    }

    /// The measure in every repetition of an arm that has it.
    pub fn values(&self, arm: usize, quantity: Quantity<'_>) -> BTreeMap<u32, f64> {
        let value = |repeat: &u32| Some((*repeat, self.value(arm, *repeat, quantity)?));
        self.runs[arm].keys().filter_map(value).collect()
    }

    fn value(&self, arm: usize, repeat: u32, quantity: Quantity<'_>) -> Option<f64> {
        let mean = |of, arm| self.mean(of, quantity.jobs, arm, repeat);
        match quantity.measure {
            Measure::Ssr => mean(JobQuantity::Ssr, arm),
            Measure::SpeedUp => {
                let own = mean(JobQuantity::Completion, arm).filter(|own| *own > 0.0)?;
                Some(mean(JobQuantity::Completion, self.reference_arm(arm, quantity.against)?)? / own)
            }
            measure => pattern(measure, self.patterns.get(&(arm, repeat))?),
        }
    }

    /// The load of an arm.
    pub fn load(&self, arm: usize) -> Load {
        let arm = &self.scenario.arms[arm];
        Load { threads: threads(arm), cpus: machine(&arm.setting).cpus }
    }

    /// The arm that has these factors and otherwise equals `arm`. Paths that vary together with one
    /// of them may differ too.
    pub fn reference_arm(&self, arm: usize, against: &BTreeMap<String, toml::Value>) -> Option<usize> {
        let is_free = |factor: &str| against.keys().any(|path| factor::is_in(factor, path));
        let is_reference = |other: &usize| {
            let mut factors = self.factors[arm].iter();
            factors.all(|(factor, value)| is_free(factor) || self.factors[*other].get(factor) == Some(value))
                && against.iter().all(|(path, value)| factor::value(&self.factors[*other], path) == Some(value))
        };
        (0..self.factors.len()).find(is_reference)
    }

    /// The mean over the copies of these jobs.
    fn mean(&self, quantity: JobQuantity, jobs: &[String], arm: usize, repeat: u32) -> Option<f64> {
        // A copy's name is the job's name, a dot and a number.
        let is_copy = |job: &&JobOutcome| {
            let rest = |name: &String| job.job.strip_prefix(name.as_str());
            jobs.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let jobs = self.runs[arm].get(&repeat)?.outcome.jobs.iter().filter(is_copy);
        let values: Vec<f64> = jobs.filter_map(|job| quantity.of(job)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// A measure of patterns.
fn pattern(measure: Measure, Patterns { transition, alternation }: &Patterns) -> Option<f64> {
    let share = |is: bool| Some(if is { 100.0 } else { 0.0 });
    match measure {
        Measure::Transition => share(transition.is_some()),
        Measure::SsrBefore => Some(transition.as_ref()?.before_percent),
        Measure::SsrAfter => Some(transition.as_ref()?.after_percent),
        Measure::Alternation => share(alternation.is_some()),
        Measure::AlternatingRounds => Some(alternation.as_ref()?.alternating_percent),
        Measure::CleanGroups => Some(alternation.as_ref()?.clean_percent),
        Measure::Ssr | Measure::SpeedUp => None,
    }
}

/// The total number of threads.
pub fn threads(arm: &Arm) -> u64 {
    arm.setting.threads(machine(&arm.setting).cpus)
}

/// The simulated machine of a setting. No paper has `like = "host"`.
pub fn machine(setting: &Setting) -> Machine {
    setting.machine.complete(&Machine::with_cpus(setting.machine.cpus.unwrap_or(1)))
}
