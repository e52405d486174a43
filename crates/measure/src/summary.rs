//! Summaries of every job in every arm and world, and the gap between the worlds.

use std::collections::BTreeMap;

use scenario::Span;
use scenario::result::{GroupOutcome, JobOutcome, World};
use serde::Serialize;

use crate::comparison::Comparisons;
use crate::factor::{self, Factors};
use crate::sample::JobQuantity;
use crate::series::{AllSeries, Series};
use report::distinct;
use stats::{self, Estimate};

/// One job in one arm and world. Figures are means over the repetitions and the job's copies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The world.
    pub world: World,
    /// The arm.
    pub factors: Factors,
    /// The job's name.
    pub job: String,
    /// The number of its copies that ran together.
    pub copies: u32,
    /// The number of threads of all jobs of the arm.
    pub threads: u64,
    /// Threads per CPU, rounded to thousandths.
    pub load: f64,
    /// The value on the x axis of plots.
    #[serde(skip)]
    pub x: Option<toml::Value>,
    /// The quantities that are plotted, by repetition.
    #[serde(skip)]
    pub samples: BTreeMap<JobQuantity, Vec<f64>>,
    /// The speed-up of each repetition.
    #[serde(skip)]
    pub speedups: Vec<f64>,
    /// The number of repetitions.
    pub repetitions: usize,
    /// Completion time.
    pub completion_ns: Option<Estimate>,
    /// From its arrival to its first computation. Only on a machine with cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ns: Option<Estimate>,
    /// Rounds per second.
    pub rounds_per_second: Option<Estimate>,
    /// Successful spins.
    pub ssr_percent: Option<Estimate>,
    /// CPU time.
    pub cpu_ns: Option<Estimate>,
    /// Voluntary context switches.
    pub voluntary_switches: Option<Estimate>,
    /// Involuntary context switches.
    pub involuntary_switches: Option<Estimate>,
    /// Completion time of the baseline over that of this arm: the geometric mean over the
    /// repetitions. One for the baseline itself.
    pub speedup: Option<Estimate>,
    /// The probability of a speed-up at least this far from one if there were none, by the paired
    /// t-test of the logarithms. `None` for the baseline, and with one repetition.
    pub speedup_p: Option<f64>,
    /// The same, corrected for all comparisons of the report.
    pub speedup_corrected_p: Option<f64>,
    /// Response times of fibers by group. Empty for jobs without fibers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<Responses>,
}

/// The response times of a group of fibers: from when a fiber is ready to the end of its next
/// burst. Percentiles of each run, averaged over the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Responses {
    /// The group's name.
    pub group: String,
    /// The median.
    pub p50_ns: Option<Estimate>,
    /// The 95th percentile.
    pub p95_ns: Option<Estimate>,
    /// The 99th percentile.
    pub p99_ns: Option<Estimate>,
    /// The longest.
    pub worst_ns: Option<Estimate>,
}

impl Responses {
    fn of(series: &Series) -> Vec<Responses> {
        let of_group = |(number, group): (usize, String)| {
            let mean = |of: fn(&GroupOutcome) -> Option<Span>| {
                let nanos = |job: &JobOutcome| Some(of(job.fibers.as_ref()?.groups.get(number)?)?.as_nanos() as f64);
                series.stages_by(nanos).mean()
            };
            Responses {
                group,
                p50_ns: mean(|group| group.response_p50_ns),
                p95_ns: mean(|group| group.response_p95_ns),
                p99_ns: mean(|group| group.response_p99_ns),
                worst_ns: mean(|group| group.response_worst_ns),
            }
        };
        series.groups().into_iter().enumerate().map(of_group).collect()
    }
}

/// The gap between prediction and measurement for a job in an arm, by repetition. Positive if the
/// simulator predicts more than was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// The arm.
    pub factors: Factors,
    /// The job's name.
    pub job: String,
    /// Of the completion time.
    pub completion_percent: Option<Estimate>,
    /// Of the rounds per second.
    pub rounds_per_second_percent: Option<Estimate>,
    /// Of SSR, in percentage points.
    pub ssr_points: Option<Estimate>,
    /// Of the CPU time.
    pub cpu_percent: Option<Estimate>,
}

/// The accuracy of the predicted completion times of a job, over all arms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// The job's name.
    pub job: String,
    /// The number of arms.
    pub arms: usize,
    /// The median of the absolute gaps.
    pub median_absolute_gap_percent: f64,
    /// The gap with the largest absolute value.
    pub largest_gap_percent: f64,
    /// The arm with the largest gap.
    pub largest_gap_factors: Factors,
}

/// Summarizes all series, in the order of arms, jobs and worlds.
pub fn summaries(all: &AllSeries<'_>, comparisons: &Comparisons) -> Vec<Summary> {
    let mut baseline = BTreeMap::new();
    let compared = |arm| factor::compared(all.scenario, arm);
    // With paths that are swept together, a group may lack the first value: the baseline.
    for group in factor::comparison_groups(all.scenario).iter().filter(|group| compared(group[0]) == compared(0)) {
        baseline.extend(group.iter().map(|&arm| (arm, group[0])));
    }
    let summarize = |(arm, job, world, series): (usize, usize, World, &Series)| {
        let mean = |quantity| series.stages(quantity).mean();
        let baseline = baseline.get(&arm).copied();
        let base = baseline.and_then(|baseline| all.get(baseline, job, world));
        let speedup = base.and_then(|base| base.log_ratios(series, JobQuantity::Completion).mean());
        let speedups = base.map(|base| base.ratios(series, JobQuantity::Completion).samples);
        let plotted = [JobQuantity::Completion, JobQuantity::RoundsPerSecond, JobQuantity::Ssr];
        let tested = baseline.and_then(|baseline| comparisons.get(job, world, baseline, arm));
        let factors = factor::of(&all.scenario.arms[arm]);
        let setting = &all.scenario.arms[arm].setting;
        let (threads, cpus) = (setting.threads(series.cpus), series.cpus);
        let x = all.scenario.experiment.x.as_deref();
        Summary {
            world,
            x: x.and_then(|x| factor::axis_value(x, &factors, threads, cpus)),
            factors,
            threads,
            load: factor::load(threads, cpus),
            job: setting.jobs[job].name.clone(),
            copies: setting.jobs[job].copies,
            samples: plotted.into_iter().map(|quantity| (quantity, series.values(quantity))).collect(),
            speedups: speedups.unwrap_or_default(),
            repetitions: series.repetitions.len(),
            completion_ns: mean(JobQuantity::Completion),
            start_ns: series.stages_by(|job| Some(job.start_ns?.as_nanos() as f64)).mean(),
            rounds_per_second: mean(JobQuantity::RoundsPerSecond),
            ssr_percent: mean(JobQuantity::Ssr),
            cpu_ns: mean(JobQuantity::CpuTime),
            voluntary_switches: mean(JobQuantity::VoluntarySwitches),
            involuntary_switches: mean(JobQuantity::InvoluntarySwitches),
            speedup: speedup.map(|mean| mean.map(f64::exp)),
            speedup_p: tested.map(|tested| stats::six_digits(tested.p)),
            speedup_corrected_p: tested.map(|tested| stats::six_digits(tested.corrected_p)),
            responses: Responses::of(series),
        }
    };
    all.iter().map(summarize).collect()
}

/// The gaps of all arms whose simulated machine is a twin of the host. If the machines differ, the
/// difference between the worlds has no meaning.
pub fn gaps(all: &AllSeries<'_>) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (number, job, world, sim) in all.iter() {
        let arm = &all.scenario.arms[number];
        let (World::Sim, Some(host)) = (world, all.get(number, job, World::Host)) else { continue };
        if !arm.setting.machine.is_host() {
            continue;
        }
        let percent = |quantity| {
            sim.log_ratios(host, quantity).mean().map(|mean| mean.map(|logarithm| (logarithm.exp() - 1.0) * 100.0))
        };
        gaps.push(Gap {
            factors: factor::of(arm),
            job: arm.setting.jobs[job].name.clone(),
            completion_percent: percent(JobQuantity::Completion),
            rounds_per_second_percent: percent(JobQuantity::RoundsPerSecond),
            ssr_points: sim.differences(host, JobQuantity::Ssr).mean(),
            cpu_percent: percent(JobQuantity::CpuTime),
        });
    }
    gaps
}

/// The accuracy of the predicted completion times, by jobs in the order of the gaps.
pub fn accuracy(gaps: &[Gap]) -> Vec<Accuracy> {
    let known: Vec<(f64, &Gap)> = gaps.iter().filter_map(|gap| Some((gap.completion_percent?.mean, gap))).collect();
    let accuracy = |job: &String| {
        let gaps = || known.iter().filter(|(_, gap)| gap.job == *job);
        let absolute: Vec<f64> = gaps().map(|(percent, _)| percent.abs()).collect();
        let &(largest, of) = gaps().max_by(|(a, _), (b, _)| a.abs().total_cmp(&b.abs()))?;
        Some(Accuracy {
            job: job.clone(),
            arms: absolute.len(),
            median_absolute_gap_percent: stats::six_digits(stats::median(&absolute)?),
            largest_gap_percent: stats::six_digits(largest),
            largest_gap_factors: of.factors.clone(),
        })
    };
    distinct(known.iter().map(|(_, gap)| &gap.job), |job| *job).into_iter().filter_map(accuracy).collect()
}
