//! The plotted figures: their names, units, and the samples behind their means.

use crate::factor;
use crate::results::ExperimentReport;
use crate::sample::JobQuantity;
use crate::summary::Summary;
use report::distinct;
use report::plot::Mark;

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

    /// The name, and the better direction, if there is one.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Metric::Completion => ("Completion time", "less is better"),
            Metric::SpeedUp => ("Speed-up", "more is better"),
            Metric::Ssr => ("Successful spins (SSR)", ""),
            Metric::RoundsPerSecond => ("Rounds per second", "more is better"),
        }
    }

    /// The figure of a summary with its samples. `None` if it does not exist.
    pub(super) fn mark(self, summary: &Summary) -> Option<Mark> {
        let samples = |quantity| summary.samples.get(&quantity).cloned().unwrap_or_default();
        let (estimate, samples) = match self {
            Metric::Completion => (summary.completion_ns, samples(JobQuantity::Completion)),
            Metric::SpeedUp => (summary.speedup, summary.speedups.clone()),
            Metric::Ssr => (summary.ssr_percent, samples(JobQuantity::Ssr)),
            Metric::RoundsPerSecond => (summary.rounds_per_second, samples(JobQuantity::RoundsPerSecond)),
        };
        Some(Mark { estimate: estimate?, samples })
    }
}

/// Units of time, longest first: the length in nanoseconds and the name.
const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];

/// The unit for times up to this many nanoseconds.
pub(super) fn unit_of_time(nanos: f64) -> (f64, &'static str) {
    UNITS.into_iter().find(|(unit, _)| nanos >= *unit).unwrap_or((1.0, "ns"))
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
