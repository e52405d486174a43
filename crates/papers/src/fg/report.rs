//! The results of an experiment.

use serde::{Deserialize, Serialize};

use super::balance::ClockRegression;
use super::prediction::Prediction;
use super::rows::Row;
use super::shares::Share;
use super::simulated::SimulatedRow;
use crate::Paper;

/// The settings of the runs. Runs are pooled only if these are the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The version of rowlock.
    pub rowlock_version: String,
    /// The machine.
    pub machine: host::Machine,
    /// The number of bytes that the compute-bound program sorts. The I/O-bound program sorts twice
    /// as many.
    pub size: u64,
    /// The size of a record in bytes.
    pub record: u64,
    /// The size of its key in bytes. The record begins with the key.
    pub key: u64,
    /// The memory of each sort in bytes.
    pub memory: u64,
    /// The seed of the input.
    pub seed: u64,
    /// A description of what was evicted before each run.
    pub evicted: String,
    /// The number of bytes per second that the I/O-bound program may read, and as many write.
    /// `None` if it was not throttled.
    pub rate: Option<u64>,
}

/// The results. Parts that the experiment does not measure are empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FgReport {
    /// The paper.
    #[serde(flatten)]
    pub paper: Paper,
    /// Whether all requested runs were made.
    pub complete: bool,
    /// The settings of the runs on this machine. `None` if nothing was sorted.
    pub settings: Option<Settings>,
    /// The table.
    pub rows: Vec<Row>,
    /// The regressions of table 5.
    pub balances: Vec<ClockRegression>,
    /// The simulator's predictions of the measured runs.
    pub predictions: Vec<Prediction>,
    /// The simulated times with other kernels and other priorities.
    pub simulated: Vec<SimulatedRow>,
    /// The CPU shares of a low-priority stage.
    pub shares: Vec<Share>,
    /// Notes on the quality of the results.
    pub notes: Vec<String>,
}

impl FgReport {
    /// A report without results.
    pub fn new(paper: &Paper) -> FgReport {
        FgReport {
            paper: *paper,
            complete: false,
            settings: None,
            rows: Vec::new(),
            balances: Vec::new(),
            predictions: Vec::new(),
            simulated: Vec::new(),
            shares: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a note, unless it exists already.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
