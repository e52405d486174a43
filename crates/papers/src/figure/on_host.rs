//! Figures that this machine can repeat, at its own size.
//!
//! Such a figure has a second scenario, `papers/STUDY/NAME.host.toml`, in which `{cells}` is the
//! number of cells of this machine and `{threads}` that of the threads of a job that fills them. A
//! job with `{half}` or `{quarter}` has that part of the cells, if there are enough.
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
pub static HOST_FIGURES: [HostFigure; 9] = [
    ap!(
        "fig5",
        false,
        "messages go through shared memory, so a round takes less time and there are more; the job without turns stands \
         for CellOS"
    ),
    ap!(
        "table2",
        true,
        "a job starts with the first output of its program, which sends no messages; there is no CellOS"
    ),
    ap!(
        "fig6",
        false,
        "messages go through shared memory, jobs are stopped instead of lowered, and four fit into a slice only from \
         eight cells on; with two or three cells, each has a slice of its own"
    ),
    ap!(
        "fig7",
        false,
        "messages go through shared memory, jobs are stopped instead of lowered, and two fit into a slice only from \
         four cells on; with fewer, each has a slice of its own"
    ),
    ap!(
        "table3",
        false,
        "messages go through shared memory, jobs are stopped instead of lowered, and as many fit into a slice as in the \
         paper only from eight cells on; with two or three cells, each has a slice of its own"
    ),
    ap!(
        "fig8",
        false,
        "messages go through shared memory, so a rank mostly waits for another to be woken and not for a network, which \
         leaves less time for other jobs; `adaptive` stands for `moderate`, and jobs that spin in turns, with more \
         rounds, stand for CellOS"
    ),
    ap!("fig9", true, "a job starts with the first output of its program, which spins and sends no messages"),
    ap!("skew", false, "messages go through shared memory, and jobs are stopped instead of lowered"),
    ap!(
        "baselines",
        false,
        "messages go through shared memory, jobs are stopped instead of lowered, and `dynamic` and `original` are left out"
    ),
];

impl HostFigure {
    /// The scenario file for a machine with so many cells.
    pub fn text(&self, cells: u32) -> String {
        let parts = [("{threads}", 1), ("{half}", 2), ("{quarter}", 4)];
        parts.iter().fold(self.scenario.replace("{cells}", &cells.to_string()), |text, (name, part)| {
            // Threads that are alone do not wait.
            text.replace(name, &(cells / part).max(2).to_string())
        })
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
    use crate::figure::evidence::Evidence;

    #[test]
    fn figures_on_this_machine_are_scenarios_that_it_can_run_and_have_no_bands() {
        for figure in HOST_FIGURES {
            assert_eq!(Paper::named(figure.paper).and_then(Paper::on_host), Some(figure));
            for cells in [1, 2, 64] {
                let scenario = figure.scenario(cells).unwrap_or_else(|bad| panic!("{bad}"));
                for arm in &scenario.arms {
                    assert_eq!(host::only_simulated(&arm.setting), None, "{}", figure.file);
                    for job in &arm.setting.jobs {
                        assert!((2..=cells.max(2)).contains(&job.kind.threads(1)), "{}: {job:?}", figure.file);
                    }
                }
            }
            assert!(figure.expected().unwrap().band.iter().all(|band| !band.is_judged()), "{}", figure.file);
        }
    }

    #[test]
    fn every_value_that_is_shown_is_that_of_an_arm_and_has_its_reference() {
        for (figure, cells) in HOST_FIGURES.iter().flat_map(|figure| [1, 2, 64].map(|cells| (figure, cells))) {
            let (scenario, expected) = (figure.scenario(cells).unwrap(), figure.expected().unwrap());
            let evidence = Evidence::new(&scenario, &[]);
            let lines = expected.figure.line.iter().map(|line| (&line.name, &line.of));
            let bands = expected.band.iter().flat_map(|band| band.of.iter().map(move |of| (&band.what, of)));
            for (name, group) in lines.chain(bands) {
                assert!(!evidence.arms(group).is_empty(), "{}: {name}", figure.file);
            }
            for band in expected.band.iter().filter(|band| band.measure.has_reference()) {
                let arms = band.of.iter().flat_map(|group| evidence.arms(group));
                let has_reference = |arm: usize| evidence.reference_arm(arm, &band.against).is_some();
                assert!(arms.into_iter().all(has_reference), "{}: {}", figure.file, band.what);
            }
        }
    }
}
