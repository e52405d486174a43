//! The runs, one process each, and their observations.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::arms::Arm;
use super::measurement::MeasurementResult;
use super::programs::Program;
use stats;

/// A program with threads of one kind, which is run once a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The program.
    pub program: Program,
    /// The number of threads of the study's program. 0 for other programs.
    pub threads: u32,
    /// The threads.
    pub arm: Arm,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The program and its threads.
    pub cell: Cell,
    /// The number of the round, from zero.
    pub round: u32,
    /// The result.
    #[serde(rename = "answer")]
    pub result: MeasurementResult,
}

impl Observation {
    /// The median duration of the runs after the first one, in microseconds.
    pub fn warm_us(&self) -> Option<f64> {
        stats::median(&self.result.warm_us)
    }

    /// The duration of a run at a temperature, in microseconds.
    pub fn us(&self, at: Temperature) -> Option<f64> {
        match at {
            Temperature::Cold => Some(self.result.cold_us),
            Temperature::Warm => self.warm_us(),
        }
    }
}

/// The runs of a process that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Temperature {
    /// The first one, as in the study.
    Cold,
    /// The others.
    Warm,
}

impl Temperature {
    /// Both temperatures.
    pub const ALL: [Temperature; 2] = [Temperature::Cold, Temperature::Warm];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Temperature::Cold => "cold",
            Temperature::Warm => "warm",
        }
    }
}

/// The times of the study's program in these arms, by round. Rounds that lack an arm are omitted.
pub fn by_round(runs: &[Observation], arms: &[Arm], threads: u32, at: Temperature) -> Vec<Vec<f64>> {
    let mut rounds: BTreeMap<u32, Vec<Option<f64>>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.cell.program == Program::Study && run.cell.threads == threads) {
        if let Some(arm) = arms.iter().position(|arm| *arm == run.cell.arm) {
            rounds.entry(run.round).or_insert_with(|| vec![None; arms.len()])[arm] = run.us(at);
        }
    }
    rounds.into_values().filter_map(|round| round.into_iter().collect()).collect()
}

/// A row of the table of runs.
#[derive(Serialize)]
struct Row {
    round: u32,
    program: &'static str,
    threads: u32,
    arm: String,
    cold_us: f64,
    warm_us: Option<f64>,
    demotions: Option<u64>,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    worst_us: Option<f64>,
}

/// The row of a run in the table of runs.
pub fn row(run: &Observation) -> impl Serialize + use<> {
    let [p50_us, p95_us, p99_us, worst_us] = run.result.responses.map_or([None; 4], |times| times.all().map(Some));
    Row {
        round: run.round,
        program: run.cell.program.name(),
        threads: run.cell.threads,
        arm: run.cell.arm.name(),
        cold_us: run.result.cold_us,
        warm_us: run.warm_us(),
        demotions: run.result.demotions,
        p50_us,
        p95_us,
        p99_us,
        worst_us,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::threads::arms::{CONFIGURATIONS, System};

    pub(in crate::threads) fn run(arm: Arm, threads: u32, round: u32, us: f64) -> Observation {
        let cell = Cell { program: Program::Study, threads, arm };
        let warm_us = vec![us / 10.0];
        Observation {
            cell,
            round,
            result: MeasurementResult { cold_us: us, warm_us, demotions: Some(0), responses: None },
        }
    }

    #[test]
    fn a_round_counts_if_it_has_all_arms() {
        let arms: Vec<Arm> =
            CONFIGURATIONS[..2].iter().map(|of| Arm { system: System::Fibers, configuration: Some(*of) }).collect();
        let runs =
            [run(arms[1], 50, 0, 2.0), run(arms[0], 50, 0, 1.0), run(arms[0], 50, 1, 3.0), run(arms[1], 100, 1, 4.0)];
        assert_eq!(by_round(&runs, &arms, 50, Temperature::Cold), [[1.0, 2.0]]);
        assert_eq!(by_round(&runs, &arms, 50, Temperature::Warm), [[0.1, 0.2]]);
    }

    #[test]
    fn the_file_has_a_row_for_each_run() {
        let arm = Arm { system: System::Fibers, configuration: Some(CONFIGURATIONS[0]) };
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.serialize(row(&run(arm, 50, 3, 20.0))).unwrap();
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        assert_eq!(
            text,
            "round,program,threads,arm,cold_us,warm_us,demotions,p50_us,p95_us,p99_us,worst_us\n3,study,50,fibers 10/50,20.0,2.0,0,,,,\n"
        );
    }
}
