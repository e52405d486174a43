//! Papers: figures that others have published, each as a scenario with what is expected of it. Running one says how near
//! the simulator comes to the paper.
//!
//! Beside the scenario `papers/NAME.toml` stands `papers/NAME.bands.toml` with the [`expected`] bands. A band need not hold
//! the paper's value: where a paper leaves a choice open, every faithful simulation may come out a little differently.

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
    /// What it is called on the command line.
    pub name: &'static str,
    /// Its scenario file.
    pub scenario: &'static str,
    /// What is expected of it, as TOML.
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

/// All of them, in the order in which they are listed to people.
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

    /// The name as part of a file's name.
    pub fn stem(&self) -> String {
        self.name.replace('/', "-")
    }

    /// Its scenario.
    ///
    /// # Errors
    ///
    /// Its file is no scenario: a defect of rowlock.
    pub fn scenario(&self) -> Result<Scenario, Diagnostics> {
        scenario::read(&format!("{}.toml", self.name), self.scenario.as_bytes())
    }

    /// What is expected of it.
    ///
    /// # Errors
    ///
    /// Its file does not say that: a defect of rowlock.
    pub fn expected(&self) -> Result<Expected, toml::de::Error> {
        toml::from_str(self.expected)
    }
}
