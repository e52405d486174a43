//! Roysden's tables, measured again: out-of-core columnsort under priority rules.
//!
//! Source: Roysden, Scheduling Pipelined, Multi-Threaded Programs in Linux, Dartmouth TR2004-500, 2004, section 4. What is run is in [`arms`],
//! the runs and their order in [`runs`], what they say in [`rows`] and [`balance`], what the simulator says of the same in [`prediction`] and
//! [`simulated`]; and [`shares`] is what becomes of a stage that comes after others. This module has no clock and starts nothing.

pub mod arms;
pub mod balance;
pub mod prediction;
pub mod report;
pub mod rows;
pub mod runs;
pub mod settings;
pub mod shares;
pub mod simulated;
pub mod text;

use self::arms::{Arm, MAGNITUDES, RULES, THREADS};

/// One of the tables, or a remark that was put to the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Where in the thesis that is.
    pub source: &'static str,
    /// What the thesis says there.
    pub shows: &'static str,
    /// About how long it takes, with all defaults, on two CPUs.
    pub takes: &'static str,
    /// What it is about.
    pub subject: Subject,
    /// The arms that are measured: those of the subject that have one of these names.
    names: &'static [&'static str],
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Kernels, and ways to run stages on threads: table 2.
    Threads,
    /// Rules of priority: tables 3 and 4.
    Rules,
    /// What clock time is made of: table 5.
    Balance,
    /// Larger and smaller differences of priority.
    Magnitude,
    /// What is left for whoever comes last.
    Starvation,
}

/// All of them, in the order of the thesis.
pub const EXPERIMENTS: [Experiment; 6] = [
    Experiment {
        name: "fg/table2",
        source: "Roysden, section 4, \"Kernel improvements\", and table 2",
        shows: "Linux 2.6 with NPTL is 6 % faster than Linux 2.4 with LinuxThreads where the processors are the limit, and 3 % where the disk is.",
        takes: "5 min",
        subject: Subject::Threads,
        names: &["threads", "workers"],
    },
    Experiment {
        name: "fg/table3",
        source: "Roysden, section 4, \"Fixed scheduling\", and table 3",
        shows: "Lowering the stages that do I/O makes the program that computes 5 % faster; nothing else makes a difference.",
        takes: "5 min",
        subject: Subject::Rules,
        names: &["default", "nice-down-io", "nice-up-io"],
    },
    Experiment {
        name: "fg/table4",
        source: "Roysden, section 4, \"Adjusting scheduling\", and table 4",
        shows: "Rules that adjust priorities by what stages find in their queues change the clock time by about 1 %. Two rules beyond the thesis stand \
                beside them.",
        takes: "8 min",
        subject: Subject::Rules,
        names: &["default", "dynamic-up", "dynamic-up-down", "input-queue", "limiting-resource"],
    },
    Experiment {
        name: "fg/table5",
        source: "Roysden, section 4, \"Adjusting scheduling\", and table 5",
        shows: "A second more of processor time costs half a second where the processors are the limit and two share the load, and more where the disk is.",
        takes: "12 min",
        subject: Subject::Balance,
        names: &[
            "default",
            "nice-down-io",
            "nice-up-io",
            "dynamic-up",
            "dynamic-up-down",
            "input-queue",
            "limiting-resource",
        ],
    },
    Experiment {
        name: "fg/magnitude",
        source: "Roysden, section 3, \"System calls for scheduling\"",
        shows: "\"the magnitude of priority differences does not matter (i.e., priority 2 versus priority 1 has the same behavior as priority 20 versus \
                priority 1)\"",
        takes: "4 min",
        subject: Subject::Magnitude,
        names: &["default", "nice 1", "nice 5", "nice 10", "nice 19", "fifo 1", "fifo 20"],
    },
    Experiment {
        name: "fg/starvation",
        source: "Roysden, section 3, \"Linux scheduling\" and \"System calls for scheduling\"",
        shows: "\"the higher priority thread always runs\", and the high-priority threads continue to run, starving low-priority threads.",
        takes: "1 min",
        subject: Subject::Starvation,
        names: &[],
    },
];

impl Experiment {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// The name as part of a file's name.
    pub fn stem(&self) -> String {
        self.name.replace('/', "-")
    }

    /// What is measured on the host, the first of each variant being what the others are compared with. Nothing where the scenario of [`shares`] says all.
    pub fn arms(&self) -> Vec<&'static Arm> {
        let all: &'static [Arm] = match self.subject {
            Subject::Threads => &THREADS,
            Subject::Rules | Subject::Balance => &RULES,
            Subject::Magnitude => &MAGNITUDES,
            Subject::Starvation => &[],
        };
        all.iter().filter(|arm| self.names.contains(&arm.name)).collect()
    }

    /// What the others are compared with: the name of an arm.
    pub fn baseline(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fg::arms::Variant;

    #[test]
    fn every_variant_of_every_table_begins_with_what_the_others_are_compared_with() {
        for experiment in EXPERIMENTS {
            assert_eq!(
                Experiment::named(experiment.name),
                Some(&EXPERIMENTS[EXPERIMENTS.iter().position(|of| of == &experiment).unwrap()])
            );
            for variant in Variant::ALL {
                let arms = experiment.arms();
                let mut of_it = arms.iter().filter(|arm| arm.variant == variant);
                assert!(of_it.next().is_none_or(|first| first.name == experiment.baseline()), "{}", experiment.name);
            }
        }
        let known = |experiment: &Experiment| {
            experiment.names.iter().all(|name| experiment.arms().iter().any(|arm| arm.name == *name))
        };
        assert!(EXPERIMENTS.iter().all(known));
    }
}
