//! The results of an experiment.

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::claims::{self, ClaimVerdict};
use super::programs::Program;
use super::runs::Observation;
use super::simulated::SimulatedRow;
use super::table::{self, ResponseRow, SpeedupRow, TimeRow};
use crate::Paper;

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
pub struct ThreadsReport {
    /// The paper.
    #[serde(flatten)]
    pub paper: Paper,
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
    /// Notes on the quality of the results.
    pub notes: Vec<String>,
}

impl ThreadsReport {
    /// The results of some runs, without simulations.
    pub fn new(
        paper: &Paper,
        experiment: Experiment,
        settings: Settings,
        runs: &[Observation],
        complete: bool,
        notes: Vec<String>,
    ) -> ThreadsReport {
        let arms = experiment.arms(settings.preemptible);
        let mut report = ThreadsReport {
            paper: *paper,
            complete,
            settings,
            rows: Vec::new(),
            factors: Vec::new(),
            responses: Vec::new(),
            simulated: Vec::new(),
            verdicts: Vec::new(),
            notes,
        };
        let threads = &report.settings.threads;
        match experiment {
            Experiment::Systems => report.factors = table::factors(runs, threads, &arms),
            Experiment::Configurations => report.verdicts = claims::verdicts(runs, threads, complete),
            Experiment::Workloads => report.responses = table::responses(runs, experiment.programs(), &arms),
        }
        if experiment.programs().contains(&Program::Study) {
            report.rows = table::rows(runs, threads, &arms);
        }
        report
    }
}
