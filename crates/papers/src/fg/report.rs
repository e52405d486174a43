//! All that came out of one of the experiments.

use serde::Serialize;

use super::Experiment;
use super::balance::ClockRegression;
use super::folder::Settings;
use super::prediction::Prediction;
use super::rows::Row;
use super::shares::Share;
use super::simulated::SimulatedRow;

/// What came out. What an experiment is not about is empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The experiment.
    pub paper: &'static str,
    /// Where in the thesis that is.
    pub source: &'static str,
    /// What the thesis says there.
    pub shows: &'static str,
    /// Whether all was run that was asked for.
    pub complete: bool,
    /// What was run on this machine; nothing where nothing was sorted.
    pub settings: Option<Settings>,
    /// The table.
    pub rows: Vec<Row>,
    /// The regressions of table 5.
    pub balances: Vec<ClockRegression>,
    /// What the simulator says of the measured runs.
    pub predictions: Vec<Prediction>,
    /// What the simulator says of other kernels, and of other priorities.
    pub simulated: Vec<SimulatedRow>,
    /// What is left for whoever comes last.
    pub shares: Vec<Share>,
    /// What one should know before one believes the rest.
    pub notes: Vec<String>,
}

impl Report {
    /// One in which nothing came out yet.
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

    /// Notes something, once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
