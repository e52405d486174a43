//! Simulated figures of papers: each is a scenario with expected values, so that a run shows how
//! close the simulator is to the paper.
//!
//! The scenario `papers/STUDY/NAME.toml` has a file `papers/STUDY/NAME.bands.toml` with the
//! [`expected`] bands. [`evidence`] has the runs and what is measured in each, [`drawing`] makes
//! the paper's lines of them, [`judgement`] compares them with the bands, and [`text`] and [`page`]
//! show both.
//!
//! A band need not contain the paper's value: if a paper leaves a choice open, every faithful
//! simulation may differ a little from it.

mod arms;
pub mod changes;
pub mod drawing;
pub mod evidence;
pub mod expected;
pub mod judgement;
pub mod on_host;
pub mod page;
pub mod patterns;
pub mod text;

use scenario::{Diagnostics, Scenario};

use self::expected::Expected;

/// The files of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureFiles {
    /// The name of the scenario file.
    pub name: &'static str,
    /// The scenario file.
    pub scenario: &'static str,
    /// The file of bands.
    pub bands: &'static str,
}

impl FigureFiles {
    /// The scenario.
    ///
    /// # Errors
    ///
    /// The file is not a scenario: a defect of rowlock.
    pub fn scenario(&self) -> Result<Scenario, Diagnostics> {
        scenario::read(self.name, self.scenario.as_bytes())
    }

    /// The bands.
    ///
    /// # Errors
    ///
    /// The file is invalid: a defect of rowlock.
    pub fn expected(&self) -> Result<Expected, toml::de::Error> {
        toml::from_str(self.bands)
    }
}
