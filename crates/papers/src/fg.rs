//! Roysden's tables, measured again: out-of-core columnsort under priority rules.
//!
//! Source: Roysden, Scheduling Pipelined, Multi-Threaded Programs in Linux, Dartmouth TR2004-500,
//! 2004, section 4. The programs are in [`arms`], their observations in [`runs`], and the tables in
//! [`rows`] and [`balance`]. [`prediction`] and [`simulated`] use the simulator, and [`shares`] is
//! about stages of low priority. This module has no clock and starts nothing.

pub mod arms;
pub mod balance;
pub mod prediction;
pub mod report;
pub mod rows;
pub mod runs;
pub mod shares;
pub mod simulated;
pub mod text;

use self::arms::{Arm, MAGNITUDES, RULES, THREADS};

/// One of the tables, or a tested remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Table 2: kernels, and ways to run stages on threads.
    Kernels,
    /// Table 3: rules that fix priorities.
    FixedRules,
    /// Table 4: rules that adjust priorities.
    AdjustingRules,
    /// Table 5: the components of clock time.
    Regression,
    /// Larger and smaller differences of priority.
    Magnitude,
    /// The CPU share of a stage of low priority.
    Starvation,
}

impl Experiment {
    /// The arms that are measured on the host. The first one of each variant is the baseline of the
    /// others. Empty if only the scenario of [`shares`] is run.
    pub fn arms(self) -> Vec<&'static Arm> {
        let rules = |names: &[&str]| RULES.iter().filter(|arm| names.contains(&arm.name)).collect();
        match self {
            Experiment::Kernels => THREADS.iter().collect(),
            Experiment::FixedRules => rules(&["default", "nice-down-io", "nice-up-io"]),
            Experiment::AdjustingRules => {
                rules(&["default", "dynamic-up", "dynamic-up-down", "input-queue", "limiting-resource"])
            }
            Experiment::Regression => RULES.iter().collect(),
            Experiment::Magnitude => MAGNITUDES.iter().collect(),
            Experiment::Starvation => Vec::new(),
        }
    }

    /// The name of the arm that the others are compared with.
    pub fn baseline(self) -> &'static str {
        self.arms().first().map_or("", |arm| arm.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fg::arms::Variant;

    #[test]
    fn every_variant_of_every_table_begins_with_the_baseline() {
        use Experiment::{AdjustingRules, FixedRules, Kernels, Magnitude, Regression, Starvation};
        let expected =
            [(Kernels, 4), (FixedRules, 6), (AdjustingRules, 10), (Regression, 14), (Magnitude, 7), (Starvation, 0)];
        for (experiment, count) in expected {
            let arms = experiment.arms();
            assert_eq!(arms.len(), count, "{experiment:?}");
            for variant in Variant::ALL {
                let first = arms.iter().find(|arm| arm.variant == variant);
                assert!(first.is_none_or(|first| first.name == experiment.baseline()), "{experiment:?}");
            }
        }
    }
}
