//! Figures of the paper on barriers: each as a scenario with the values that it is expected to
//! reach.
//!
//! A run shows how close the simulator is to the paper.
//!
//! The scenario `papers/NAME.toml` has a file `papers/NAME.bands.toml` with the [`expected`] bands.
//! A band need not contain the paper's value: if a paper leaves a choice open, every faithful
//! simulation may differ a little from it.

mod arms;
pub mod changes;
pub mod evidence;
pub mod expected;
pub mod figure;
pub mod judgement;
pub mod page;
pub mod patterns;
pub mod text;

use scenario::{Diagnostics, Scenario};

use self::expected::Expected;

/// A figure or a section of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its scenario file.
    pub scenario: &'static str,
    /// Its bands, as TOML.
    pub expected: &'static str,
}

macro_rules! paper {
    ($name:literal) => {
        Paper {
            name: $name,
            scenario: include_str!(concat!("../papers/", $name, ".toml")),
            expected: include_str!(concat!("../papers/", $name, ".bands.toml")),
        }
    };
}

/// All papers, in the order of the list.
pub const PAPERS: &[Paper] = &[
    paper!("barrier/fig1"),
    paper!("barrier/fig2"),
    paper!("barrier/fig3"),
    paper!("barrier/fig4"),
    paper!("barrier/fig5"),
    paper!("barrier/fig6"),
    paper!("barrier/fig7"),
    paper!("barrier/fig8"),
    paper!("barrier/fig9"),
    paper!("barrier/six"),
    paper!("barrier/wakeup"),
    paper!("barrier/wakeup-pair"),
];

impl Paper {
    /// The paper of this name.
    pub fn named(name: &str) -> Option<&'static Paper> {
        PAPERS.iter().find(|paper| paper.name == name)
    }

    /// The name as part of a file name.
    pub fn stem(&self) -> String {
        self.name.replace('/', "-")
    }

    /// Its scenario.
    ///
    /// # Errors
    ///
    /// The file is not a scenario: a defect of rowlock.
    pub fn scenario(&self) -> Result<Scenario, Diagnostics> {
        scenario::read(&format!("{}.toml", self.name), self.scenario.as_bytes())
    }

    /// Its bands.
    ///
    /// # Errors
    ///
    /// The file is invalid: a defect of rowlock.
    pub fn expected(&self) -> Result<Expected, toml::de::Error> {
        toml::from_str(self.expected)
    }
}
