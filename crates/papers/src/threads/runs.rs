//! The runs: what was observed, one process each, and in which order.

use std::collections::BTreeMap;
use std::io::Write;

use scenario::draw::Stream;
use serde::Serialize;

use super::arms::Arm;
use super::order::{Answer, Program, Responses};
use stats;

/// What is run once a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Which program.
    pub program: Program,
    /// How many threads the study's program has; 0 for others.
    pub threads: u32,
    /// With which threads.
    pub arm: Arm,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// What was run.
    pub cell: Cell,
    /// The round, from zero, that it belongs to.
    pub round: u32,
    /// What came out.
    pub answer: Answer,
}

impl Observation {
    /// How long a further run took, in microseconds: the median of them.
    pub fn warm_us(&self) -> Option<f64> {
        stats::median(&self.answer.warm_us)
    }

    /// How long a run took at a temperature, in microseconds.
    pub fn us(&self, at: Temperature) -> Option<f64> {
        match at {
            Temperature::Cold => Some(self.answer.cold_us),
            Temperature::Warm => self.warm_us(),
        }
    }
}

/// Which runs of a process count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Temperature {
    /// The first, as the study timed it.
    Cold,
    /// The others.
    Warm,
}

impl Temperature {
    /// Both.
    pub const ALL: [Temperature; 2] = [Temperature::Cold, Temperature::Warm];

    /// As it is called in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Temperature::Cold => "cold",
            Temperature::Warm => "warm",
        }
    }
}

/// The order of the cells in each round: one of its own that is drawn from the seed, so that a machine that slowly gets busier weighs on all alike.
pub fn plan(cells: usize, rounds: u32, seed: u64) -> Vec<(u32, usize)> {
    let order = |round| {
        let mut of_round: Vec<usize> = (0..cells).collect();
        Stream::named(seed, "order of runs", round).shuffle(&mut of_round);
        of_round.into_iter().map(move |cell| (round, cell))
    };
    (0..rounds).flat_map(order).collect()
}

/// How often a program of so many threads is run in a process after the first time: so often that it is soon over.
pub fn warm(program: Program, threads: u32) -> u32 {
    match program {
        Program::Study => (20_000 / threads.max(1)).clamp(2, 10),
        Program::Yields | Program::Locks | Program::Mixed => 1,
    }
}

/// Times of the study's program in all arms, those of a round together: only rounds in which there are all.
pub fn by_round(runs: &[Observation], arms: &[Arm], threads: u32, at: Temperature) -> Vec<Vec<f64>> {
    let mut rounds: BTreeMap<u32, Vec<Option<f64>>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.cell.program == Program::Study && run.cell.threads == threads) {
        if let Some(arm) = arms.iter().position(|arm| *arm == run.cell.arm) {
            rounds.entry(run.round).or_insert_with(|| vec![None; arms.len()])[arm] = run.us(at);
        }
    }
    rounds.into_values().filter_map(|round| round.into_iter().collect()).collect()
}

/// A row of the file of all runs.
#[derive(Serialize)]
struct Row<'a> {
    round: u32,
    program: &'a str,
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

/// Writes runs as CSV, with a header.
///
/// # Errors
/// The file cannot be written.
pub fn write(runs: &[Observation], to: impl Write) -> Result<(), csv::Error> {
    let mut writer = csv::Writer::from_writer(to);
    for run in runs {
        let of = |figure: fn(&Responses) -> f64| run.answer.responses.as_ref().map(figure);
        writer.serialize(Row {
            round: run.round,
            program: run.cell.program.name(),
            threads: run.cell.threads,
            arm: run.cell.arm.name(),
            cold_us: run.answer.cold_us,
            warm_us: run.warm_us(),
            demotions: run.answer.demotions,
            p50_us: of(|responses| responses.p50),
            p95_us: of(|responses| responses.p95),
            p99_us: of(|responses| responses.p99),
            worst_us: of(|responses| responses.worst),
        })?;
    }
    writer.flush()?;
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::threads::arms::CONFIGURATIONS;
    use crate::threads::arms::System;

    pub(in crate::threads) fn run(arm: Arm, threads: u32, round: u32, us: f64) -> Observation {
        let cell = Cell { program: Program::Study, threads, arm };
        Observation {
            cell,
            round,
            answer: Answer { cold_us: us, warm_us: vec![us / 10.0], demotions: Some(0), responses: None },
        }
    }

    #[test]
    fn each_round_holds_each_cell_once_in_an_order_of_its_own() {
        let plan = plan(9, 20, 7);
        let rounds: Vec<Vec<usize>> =
            plan.chunks(9).map(|round| round.iter().map(|(_, cell)| *cell).collect()).collect();
        assert_eq!(rounds.len(), 20);
        assert!(rounds.iter().any(|round| *round != rounds[0]));
        for mut round in rounds {
            round.sort_unstable();
            assert!(round.into_iter().eq(0..9));
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
        let mut written = Vec::new();
        write(&[run(arm, 50, 3, 20.0)], &mut written).unwrap();
        let text = String::from_utf8(written).unwrap();
        assert_eq!(
            text,
            "round,program,threads,arm,cold_us,warm_us,demotions,p50_us,p95_us,p99_us,worst_us\n3,study,50,fibers 10/50,20.0,2.0,0,,,,\n"
        );
    }
}
