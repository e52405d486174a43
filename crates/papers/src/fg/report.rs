//! The results of an experiment.
#![expect(missing_docs, reason = "docs/output.md describes the fields, and a test compares them")]

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
    pub rowlock_version: String,
    pub machine: host::Machine,
    pub size: u64,
    pub record: u64,
    pub key: u64,
    pub memory: u64,
    pub seed: u64,
    pub evicted: String,
    pub rate: Option<u64>,
}

/// The results. Parts that the experiment does not measure are empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FgReport {
    #[serde(flatten)]
    pub paper: Paper,
    pub complete: bool,
    pub settings: Option<Settings>,
    pub rows: Vec<Row>,
    pub balances: Vec<ClockRegression>,
    pub predictions: Vec<Prediction>,
    pub simulated: Vec<SimulatedRow>,
    pub shares: Vec<Share>,
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
