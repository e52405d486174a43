//! Figures that this machine can repeat, at its own size.
//!
//! Such a figure has a second scenario, `papers/STUDY/NAME.host.toml`, in which `{cells}` is the
//! number of cells of this machine and `{threads}` that of the threads of a job that fills them.
//! Its file of bands has no ends: the value of the paper is only shown beside ours, because it is
//! that of another machine.

use scenario::{Diagnostics, Scenario};

use super::expected::Expected;
use crate::Paper;

/// A figure on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFigure {
    /// The paper's name.
    pub paper: &'static str,
    /// The name of the scenario file.
    pub file: &'static str,
    scenario: &'static str,
    bands: &'static str,
    /// The differences from the paper, in a sentence.
    pub differs: &'static str,
    /// Whether its jobs are started by `rowlock prun`, and it is about their starts.
    pub is_of_starts: bool,
}

macro_rules! ap {
    ($name:literal, $is_of_starts:literal, $differs:literal) => {
        HostFigure {
            paper: concat!("ap/", $name),
            file: concat!("ap/", $name, ".host.toml"),
            scenario: include_str!(concat!("../../papers/ap/", $name, ".host.toml")),
            bands: include_str!(concat!("../../papers/ap/", $name, ".host.bands.toml")),
            differs: $differs,
            is_of_starts: $is_of_starts,
        }
    };
}

/// All figures that this machine can repeat.
pub static HOST_FIGURES: [HostFigure; 4] = [
    ap!(
        "table2",
        true,
        "a job starts with the first output of its program, which sends no messages; there is no CellOS"
    ),
    ap!("fig9", true, "a job starts with the first output of its program, which spins and sends no messages"),
    ap!(
        "skew",
        false,
        "the jobs meet at barriers, since no messages are sent here, and are stopped instead of lowered"
    ),
    ap!(
        "baselines",
        false,
        "the jobs meet at barriers, since no messages are sent here; so `dynamic`, which needs them, is left out, as is \
         `original`, and jobs are stopped instead of lowered"
    ),
];

impl HostFigure {
    /// The scenario file for a machine with so many cells.
    pub fn text(&self, cells: u32) -> String {
        // Threads that are alone do not wait.
        self.scenario.replace("{cells}", &cells.to_string()).replace("{threads}", &cells.max(2).to_string())
    }

    /// The scenario for a machine with so many cells.
    ///
    /// # Errors
    ///
    /// The file is not a scenario: a defect of rowlock.
    pub fn scenario(&self, cells: u32) -> Result<Scenario, Diagnostics> {
        scenario::read(self.file, self.text(cells).as_bytes())
    }

    /// The values to show beside those of the paper.
    ///
    /// # Errors
    ///
    /// The file is invalid: a defect of rowlock.
    pub fn expected(&self) -> Result<Expected, toml::de::Error> {
        toml::from_str(self.bands)
    }
}

impl Paper {
    /// The figure on this machine. `None` if it is only simulated, or measures something else.
    pub fn on_host(&self) -> Option<HostFigure> {
        HOST_FIGURES.iter().find(|figure| figure.paper == self.name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_on_this_machine_are_scenarios_that_it_can_run_and_have_no_bands() {
        for figure in HOST_FIGURES {
            assert_eq!(Paper::named(figure.paper).and_then(Paper::on_host), Some(figure));
            for cells in [1, 2, 64] {
                let scenario = figure.scenario(cells).unwrap_or_else(|bad| panic!("{bad}"));
                for arm in &scenario.arms {
                    assert_eq!(host::only_simulated(&arm.setting), None, "{}", figure.file);
                    assert_eq!(arm.setting.threads(1) % u64::from(cells.max(2)), 0);
                }
            }
            assert!(figure.expected().unwrap().band.iter().all(|band| !band.is_judged()), "{}", figure.file);
        }
    }
}
