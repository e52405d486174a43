//! The tables: medians of the runs, and how many times as fast one system is as another.

use serde::Serialize;

use super::arms::Arm;
use super::programs::Program;
use super::runs::{Cell, Observation, Temperature, by_round};
use stats::median::Median;

/// The study's program with a number of threads, in one of the arms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeRow {
    /// The number of threads.
    pub threads: u32,
    /// The name of the arm.
    pub arm: String,
    /// The duration of its first run in a process, in microseconds.
    pub cold_us: Median,
    /// The duration of its other runs. Each process counts with the median of its runs.
    pub warm_us: Option<Median>,
    /// The study's measurement, for POSIX threads.
    pub study_us: Option<f64>,
    /// How often a fiber used up its running time, in all runs of all processes.
    pub demotions: Option<u64>,
}

impl TimeRow {
    /// The duration of a run at a temperature, in microseconds.
    pub fn us(&self, at: Temperature) -> Option<Median> {
        match at {
            Temperature::Cold => Some(self.cold_us),
            Temperature::Warm => self.warm_us,
        }
    }
}

/// How many times as fast one arm is as another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpeedupRow {
    /// The number of threads.
    pub threads: u32,
    /// The temperature of the runs.
    pub at: Temperature,
    /// The arm.
    pub arm: String,
    /// The other arm.
    pub against: String,
    /// The median over the rounds of the other's time over this arm's. A median is insensitive to
    /// rounds that were disturbed.
    pub times_as_fast: Median,
}

/// Response times of a program in one of the arms: medians over the runs, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResponseRow {
    /// The program.
    pub program: Program,
    /// The name of the arm.
    pub arm: String,
    /// The total time.
    pub total_us: Median,
    /// The median response of each run.
    pub p50_us: Median,
    /// The 95th percentile of each run.
    pub p95_us: Median,
    /// The 99th percentile of each run.
    pub p99_us: Median,
    /// The longest response of each run.
    pub worst_us: Median,
    /// How often a fiber used up its running time, in all runs of all processes.
    pub demotions: Option<u64>,
}

/// The names of the times of a [`ResponseRow`].
pub(crate) const TIMES: [&str; 5] = ["total", "p50", "p95", "p99", "worst"];

impl ResponseRow {
    /// The times, in the order of their names.
    pub(crate) fn times(&self) -> [Median; 5] {
        [self.total_us, self.p50_us, self.p95_us, self.p99_us, self.worst_us]
    }
}

/// The rows of the study's program, by numbers of threads and then in the order of the arms.
pub fn rows(runs: &[Observation], threads: &[u32], arms: &[Arm]) -> Vec<TimeRow> {
    let cells = threads.iter().flat_map(|threads| arms.iter().map(move |arm| (*threads, *arm)));
    let row = |(threads, arm)| {
        let of = runs_of(runs, Cell { program: Program::Study, threads, arm });
        let times = |at| of.iter().filter_map(|run| run.us(at)).collect::<Vec<f64>>();
        Some(TimeRow {
            threads,
            arm: arm.name(),
            cold_us: Median::of(&times(Temperature::Cold))?,
            warm_us: Median::of(&times(Temperature::Warm)),
            study_us: if arm.is_of_the_kernel() && !arm.is_on_one_cpu() { super::study_us(threads) } else { None },
            demotions: demotions(&of),
        })
    };
    cells.filter_map(row).collect()
}

/// How many times as fast the last arm is as each of the others, by numbers of threads.
pub fn factors(runs: &[Observation], threads: &[u32], arms: &[Arm]) -> Vec<SpeedupRow> {
    let Some((&ours, others)) = arms.split_last() else { return Vec::new() };
    let pairs = threads.iter().flat_map(|threads| {
        Temperature::ALL.into_iter().flat_map(move |at| others.iter().map(move |other| (*threads, at, *other)))
    });
    let factor = |(threads, at, other): (u32, Temperature, Arm)| {
        let ratios =
            by_round(runs, &[other, ours], threads, at).iter().map(|round| round[0] / round[1]).collect::<Vec<f64>>();
        let times_as_fast = Median::of(&ratios)?;
        Some(SpeedupRow { threads, at, arm: ours.name(), against: other.name(), times_as_fast })
    };
    pairs.filter_map(factor).collect()
}

/// The response times, by program and then in the order of the arms.
pub fn responses(runs: &[Observation], programs: &[Program], arms: &[Arm]) -> Vec<ResponseRow> {
    let cells = programs.iter().flat_map(|program| arms.iter().map(move |arm| (*program, *arm)));
    let row = |(program, arm)| {
        let of = runs_of(runs, Cell { program, threads: 0, arm });
        let percentile = |at: usize| {
            Median::of(&of.iter().filter_map(|run| Some(run.result.responses?.all()[at])).collect::<Vec<f64>>())
        };
        let total = |run: &&Observation| run.warm_us().or(run.us(Temperature::Cold));
        Some(ResponseRow {
            program,
            arm: arm.name(),
            total_us: Median::of(&of.iter().filter_map(total).collect::<Vec<f64>>())?,
            p50_us: percentile(0)?,
            p95_us: percentile(1)?,
            p99_us: percentile(2)?,
            worst_us: percentile(3)?,
            demotions: demotions(&of),
        })
    };
    cells.filter_map(row).collect()
}

fn runs_of(runs: &[Observation], cell: Cell) -> Vec<&Observation> {
    runs.iter().filter(|run| run.cell == cell).collect()
}

/// The sum. `None` if a run has no count.
fn demotions(runs: &[&Observation]) -> Option<u64> {
    runs.iter().map(|run| run.result.demotions).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::Experiment;
    use crate::threads::runs::tests::run;

    #[test]
    fn speedups_are_medians_of_ratios_within_rounds() {
        let arms = Experiment::Systems.arms(false);
        let [posix, _, fibers] = arms[..] else { panic!("{arms:?}") };
        let times = [(0, 400.0, 4.0), (1, 900.0, 3.0)];
        let mut runs: Vec<Observation> = Vec::new();
        for (round, theirs, ours) in times {
            runs.extend([run(posix, 50, round, theirs), run(fibers, 50, round, ours)]);
        }
        // An incomplete round.
        runs.push(run(posix, 50, 2, 500.0));
        let rows = rows(&runs, &[50, 100], &arms);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].cold_us.median, rows[0].study_us, rows[0].cold_us.samples), (500.0, Some(3510.0), 3));
        assert_eq!((rows[1].cold_us.median, rows[1].study_us, rows[1].demotions), (3.5, None, Some(0)));
        assert!((rows[1].warm_us.unwrap().median - 0.35).abs() < 1e-12);
        let factors = factors(&runs, &[50, 100], &arms);
        assert_eq!(factors.len(), 2);
        assert!((factors[0].times_as_fast.median - 200.0).abs() < 1e-9, "{factors:?}");
        assert_eq!((factors[0].against.as_str(), factors[0].times_as_fast.samples), ("pthreads", 2));
    }
}
