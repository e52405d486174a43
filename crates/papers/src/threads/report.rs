//! The results of an experiment.
#![expect(missing_docs, reason = "docs/output.md describes the fields, and a test compares them")]

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
    pub rowlock_version: String,
    pub machine: host::Machine,
    pub threads: Vec<u32>,
    pub preemptible: bool,
    pub repeat: u32,
    pub seed: u64,
    pub rounds_per_us: Option<f64>,
}

/// The results. Parts that the experiment does not measure are empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadsReport {
    #[serde(flatten)]
    pub paper: Paper,
    pub complete: bool,
    pub settings: Settings,
    pub rows: Vec<TimeRow>,
    pub factors: Vec<SpeedupRow>,
    pub responses: Vec<ResponseRow>,
    pub simulated: Vec<SimulatedRow>,
    pub verdicts: Vec<ClaimVerdict>,
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
            Experiment::Configurations => report.verdicts = claims::verdicts(runs, threads),
            Experiment::Workloads => report.responses = table::responses(runs, experiment.programs(), &arms),
        }
        if experiment.programs().contains(&Program::Study) {
            report.rows = table::rows(runs, threads, &arms);
        }
        report
    }
}
