//! The plotted figures: their names, units, and the samples behind their means.

use std::collections::BTreeMap;

use scenario::result::{Run, World};

use crate::factor;
use crate::results::ExperimentReport;
use crate::sample::JobQuantity;
use crate::summary::{Factors, Summary};
use report::html::distinct;
use report::plot::Mark;
use report::words;

/// A figure of a job that is plotted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Completion,
    SpeedUp,
    Ssr,
    RoundsPerSecond,
}

impl Metric {
    pub(super) const ALL: [Metric; 4] = [Metric::Completion, Metric::SpeedUp, Metric::Ssr, Metric::RoundsPerSecond];

    pub(super) const fn name(self) -> &'static str {
        self.words().0
    }

    /// The better direction, if there is one.
    pub(super) const fn better(self) -> &'static str {
        self.words().1
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Metric::Completion => ("Completion time", "less is better"),
            Metric::SpeedUp => ("Speed-up", "more is better"),
            Metric::Ssr => ("Successful spins (SSR)", ""),
            Metric::RoundsPerSecond => ("Rounds per second", "more is better"),
        }
    }

    fn estimate(self, summary: &Summary) -> Option<stats::Estimate> {
        match self {
            Metric::Completion => summary.completion_ns,
            Metric::SpeedUp => summary.speedup,
            Metric::Ssr => summary.ssr_percent,
            Metric::RoundsPerSecond => summary.rounds_per_second,
        }
    }
}

/// Units of time, longest first: the length in nanoseconds and the name.
const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];

/// The unit for times up to this many nanoseconds.
pub(super) fn unit_of_time(nanos: f64) -> (f64, &'static str) {
    UNITS.into_iter().find(|(unit, _)| nanos >= *unit).unwrap_or((1.0, "ns"))
}

/// All runs, indexed to find the samples behind a summary.
pub(super) struct Figures<'a> {
    runs: BTreeMap<(World, String), Vec<&'a Run>>,
}

impl<'a> Figures<'a> {
    pub(super) fn new(report: &'a ExperimentReport) -> Figures<'a> {
        let mut runs: BTreeMap<_, Vec<&Run>> = BTreeMap::new();
        for run in &report.runs {
            runs.entry((run.world, words::factors(&run.factors))).or_default().push(run);
        }
        Figures { runs }
    }

    /// The figure of a summary with its samples. `None` if it does not exist.
    pub(super) fn mark(&self, metric: Metric, summary: &Summary) -> Option<Mark> {
        let estimate = metric.estimate(summary)?;
        let values = |of| self.values(of, summary, &summary.factors).into_values().collect();
        let samples = match metric {
            Metric::Completion => values(JobQuantity::Completion),
            Metric::Ssr => values(JobQuantity::Ssr),
            Metric::RoundsPerSecond => values(JobQuantity::RoundsPerSecond),
            Metric::SpeedUp => self.speed_ups(summary),
        };
        Some(Mark { estimate, samples })
    }

    /// A quantity of the summary's job and world in an arm, by repetition: the mean of the copies.
    fn values(&self, quantity: JobQuantity, summary: &Summary, arm: &Factors) -> BTreeMap<u32, f64> {
        let Summary { job, copies, world, .. } = summary;
        let is_the_job = |name: &str| match name.rsplit_once('.') {
            Some((of, _)) if *copies > 1 => of == job,
            _ => name == job,
        };
        let value = |run: &&Run| {
            let jobs = run.outcome.jobs.iter().filter(|outcome| is_the_job(&outcome.job));
            let values: Vec<f64> = jobs.filter_map(|outcome| quantity.of(outcome)).collect();
            (!values.is_empty()).then(|| (run.repeat, values.iter().sum::<f64>() / values.len() as f64))
        };
        let runs = self.runs.get(&(*world, words::factors(arm)));
        runs.into_iter().flatten().filter_map(value).collect()
    }

    fn speed_ups(&self, summary: &Summary) -> Vec<f64> {
        let Some(arm) = &summary.baseline else { return Vec::new() };
        let (baseline, own) = (
            self.values(JobQuantity::Completion, summary, arm),
            self.values(JobQuantity::Completion, summary, &summary.factors),
        );
        let ratio =
            |(repeat, value): (&u32, &f64)| Some(baseline.get(repeat)? / value).filter(|ratio| ratio.is_finite());
        own.iter().filter_map(ratio).collect()
    }
}

/// The values of a factor in all arms with a run, in the order of the file. For the compared factor
/// always with the baseline.
pub(super) fn values_of(report: &ExperimentReport, path: Option<&str>) -> Vec<toml::Value> {
    let Some(path) = path else { return Vec::new() };
    let baseline = report.baseline.iter().filter(|_| report.compare.as_deref() == Some(path));
    let all = baseline.chain(report.summaries.iter().filter_map(|summary| factor::value(&summary.factors, path)));
    distinct(all, ToString::to_string).into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_of_the_longest() {
        let names = [2.5e9, 1e9, 999e6, 1500.0, 3.0, 0.0].map(|nanos| unit_of_time(nanos).1);
        assert_eq!(names, ["s", "s", "ms", "us", "ns", "ns"]);
    }
}
