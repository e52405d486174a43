//! The results of an experiment.

use serde::Serialize;

use super::Experiment;
use super::balance::ClockRegression;
use super::prediction::Prediction;
use super::rows::Row;
use super::settings::Settings;
use super::shares::Share;
use super::simulated::SimulatedRow;

/// The results. Parts that the experiment does not measure are empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The experiment.
    pub paper: &'static str,
    /// The place in the thesis.
    pub source: &'static str,
    /// The thesis' statement.
    pub shows: &'static str,
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
    /// What a reader should know about the results.
    pub notes: Vec<String>,
}

impl Report {
    /// A report without results.
    pub fn new(experiment: &Experiment) -> Report {
        Report {
            paper: experiment.name,
            source: experiment.source,
            shows: experiment.shows,
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
