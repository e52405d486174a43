//! The results of an experiment.

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::claims::{self, ClaimVerdict};
use super::order::Program;
use super::runs::Observation;
use super::simulated::SimulatedRow;
use super::table::{self, ResponseRow, SpeedupRow, TimeRow};

/// The settings of the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The version of rowlock.
    pub rowlock_version: String,
    /// The machine.
    pub machine: host::Machine,
    /// The numbers of threads of the study's program.
    pub threads: Vec<u32>,
    /// Whether fibers were preemptible.
    pub preemptible: bool,
    /// The number of repetitions.
    pub repeat: u32,
    /// The seed of the order of the runs.
    pub seed: u64,
    /// The number of iterations of the work loop in a microsecond. `None` if no program has such
    /// work.
    pub rounds_per_us: Option<f64>,
}

/// The results. Parts that the experiment does not measure are empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The experiment.
    pub paper: &'static str,
    /// The place in the study.
    pub source: &'static str,
    /// The study's statement.
    pub shows: &'static str,
    /// Whether all requested runs were made.
    pub complete: bool,
    /// The settings of the runs.
    pub settings: Settings,
    /// The study's program.
    pub rows: Vec<TimeRow>,
    /// How many times as fast fibers are.
    pub factors: Vec<SpeedupRow>,
    /// The other programs.
    pub responses: Vec<ResponseRow>,
    /// The simulated programs. The simulator has no first runs.
    pub simulated: Vec<SimulatedRow>,
    /// The study's claims.
    pub verdicts: Vec<ClaimVerdict>,
    /// What a reader should know about the results.
    pub notes: Vec<String>,
}

impl Report {
    /// The results of some runs, without simulations.
    pub fn new(
        experiment: &Experiment,
        settings: Settings,
        runs: &[Observation],
        complete: bool,
        notes: Vec<String>,
    ) -> Report {
        let (arms, threads) = (experiment.arms(settings.preemptible), &settings.threads);
        let study = experiment.programs().contains(&Program::Study);
        let systems = experiment.subject == super::Subject::Systems;
        Report {
            paper: experiment.name,
            source: experiment.source,
            shows: experiment.shows,
            complete,
            rows: if study { table::rows(runs, threads, &arms) } else { Vec::new() },
            factors: if systems { table::factors(runs, threads, &arms) } else { Vec::new() },
            responses: if study { Vec::new() } else { table::responses(runs, experiment.programs(), &arms) },
            simulated: Vec::new(),
            verdicts: if study && !systems { claims::verdicts(runs, threads) } else { Vec::new() },
            settings,
            notes,
        }
    }
}
