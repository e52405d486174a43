//! The runs of a paper's scenario, and what is measured in each.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use policy::Span;
use scenario::result::{CoschedulingOutcome, JobOutcome, Run, SwitchTimes};
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
    /// The number of jobs, with one for each copy.
    pub jobs: u32,
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
            LoadUnit::Jobs => f64::from(self.jobs),
            LoadUnit::Cpus => cpus,
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
        factor::axis_value(x, &self.factors[arm], threads(of), machine(&of.setting).total_cpus())
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
            Measure::ElapsedRatio => {
                let reference = self.elapsed(quantity.jobs, self.reference_arm(arm, quantity.against)?, repeat)?;
                Some(self.elapsed(quantity.jobs, arm, repeat)? / reference)
            }
            Measure::Elapsed => self.elapsed(quantity.jobs, arm, repeat),
            Measure::ProcessTime => self.process_time(quantity.jobs, arm, repeat),
            Measure::ProcessRatio => {
                let reference = self.process_time(quantity.jobs, self.reference_arm(arm, quantity.against)?, repeat)?;
                Some(self.process_time(quantity.jobs, arm, repeat)? / reference)
            }
            Measure::Start => average(self.times(arm, repeat, quantity.jobs, |job| job.start_ns)),
            Measure::StartSpread => {
                let starts = self.times(arm, repeat, quantity.jobs, |job| job.start_ns);
                Some(largest(&starts)? - starts.iter().copied().reduce(f64::min)?)
            }
            Measure::Throughput => self.throughput(arm, repeat, quantity.against),
            Measure::Delay => Some(milliseconds(self.coscheduling(arm, repeat)?.delay_mean_ns?)),
            Measure::DelayDeviation => Some(milliseconds(self.coscheduling(arm, repeat)?.delay_sd_ns?)),
            Measure::Slices => Some(f64::from(self.coscheduling(arm, repeat)?.slices_most)),
            Measure::LatenessP50 => microseconds(self.switches(arm, repeat)?.lateness.p50_ns),
            Measure::LatenessP90 => microseconds(self.switches(arm, repeat)?.lateness.p90_ns),
            Measure::DurationP50 => microseconds(self.switches(arm, repeat)?.duration.p50_ns),
            Measure::DurationP90 => microseconds(self.switches(arm, repeat)?.duration.p90_ns),
            Measure::SkewP50 => microseconds(self.switches(arm, repeat)?.skew.p50_ns),
            Measure::SkewP90 => microseconds(self.switches(arm, repeat)?.skew.p90_ns),
            measure => pattern(measure, self.patterns.get(&(arm, repeat))?),
        }
    }

    /// The load of an arm.
    pub fn load(&self, arm: usize) -> Load {
        let arm = &self.scenario.arms[arm];
        let jobs = arm.setting.jobs.iter().map(|job| job.copies).sum();
        Load { threads: threads(arm), jobs, cpus: machine(&arm.setting).total_cpus() }
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
        average(self.copies(arm, repeat, jobs).filter_map(|job| quantity.of(job)).collect())
    }

    /// The outcomes of the copies of these jobs.
    fn copies(&self, arm: usize, repeat: u32, jobs: &[String]) -> impl Iterator<Item = &'a JobOutcome> {
        let all: &'a [JobOutcome] = self.runs[arm].get(&repeat).map_or(&[], |run| &run.outcome.jobs);
        all.iter().filter(move |job| jobs.iter().any(|name| is_copy(&job.job, name)))
    }

    /// A time of every copy of these jobs, in seconds.
    fn times(&self, arm: usize, repeat: u32, jobs: &[String], time: fn(&JobOutcome) -> Option<Span>) -> Vec<f64> {
        self.copies(arm, repeat, jobs).filter_map(time).map(Span::as_secs_f64).collect()
    }

    fn elapsed(&self, jobs: &[String], arm: usize, repeat: u32) -> Option<f64> {
        largest(&self.times(arm, repeat, jobs, |job| job.completion_ns))
    }

    fn process_time(&self, jobs: &[String], arm: usize, repeat: u32) -> Option<f64> {
        average(self.times(arm, repeat, jobs, process_time))
    }

    fn coscheduling(&self, arm: usize, repeat: u32) -> Option<&'a CoschedulingOutcome> {
        self.runs[arm].get(&repeat)?.outcome.machine.coscheduling.as_ref()
    }

    fn switches(&self, arm: usize, repeat: u32) -> Option<&'a SwitchTimes> {
        self.coscheduling(arm, repeat)?.switches.as_ref()
    }

    /// See [`Measure::Throughput`].
    fn throughput(&self, arm: usize, repeat: u32, against: &BTreeMap<String, toml::Value>) -> Option<f64> {
        let all = &self.runs[arm].get(&repeat)?.outcome.jobs;
        let ratio = |job: &JobOutcome| {
            let alone = self.arm_alone(arm, &job.job, against)?;
            let [alone] = self.runs[alone].get(&repeat)?.outcome.jobs.as_slice() else { return None };
            Some(alone.completion_ns?.as_secs_f64() / job.completion_ns?.as_secs_f64())
        };
        all.iter().map(ratio).sum()
    }

    /// The arm in which a job is alone, with these factors.
    pub fn arm_alone(&self, arm: usize, job: &str, against: &BTreeMap<String, toml::Value>) -> Option<usize> {
        let is_alone = |other: &usize| {
            let mut jobs = self.scenario.arms[*other].setting.jobs_with_copies();
            let is_the_job = jobs.next().is_some_and(|(_, alone)| is_copy(job, &alone.name));
            is_the_job
                && jobs.next().is_none()
                && against.iter().all(|(path, value)| factor::value(&self.factors[*other], path) == Some(value))
                && self.is_equal_but_for(*other, arm, against)
        };
        (0..self.factors.len()).find(is_alone)
    }
}

impl Evidence<'_> {
    /// Whether two arms have the same factors, but for these and the numbers of copies.
    fn is_equal_but_for(&self, one: usize, other: usize, free: &BTreeMap<String, toml::Value>) -> bool {
        let is_free = |factor: &str| factor.ends_with(".copies") || free.keys().any(|path| factor::is_in(factor, path));
        let mut factors = self.factors[one].iter();
        factors.all(|(factor, value)| is_free(factor) || self.factors[other].get(factor) == Some(value))
    }
}

/// Whether an outcome is that of a copy of a job: the job's name, or with a dot and a number.
fn is_copy(outcome: &str, job: &str) -> bool {
    outcome.strip_prefix(job).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn process_time(job: &JobOutcome) -> Option<Span> {
    Some(job.completion_ns? - job.start_ns?)
}

fn milliseconds(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

fn microseconds(span: Option<Span>) -> Option<f64> {
    Some(span?.as_secs_f64() * 1e6)
}

fn average(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
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
        _ => None,
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
