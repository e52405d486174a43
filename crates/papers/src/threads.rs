//! A study of a user-level thread library, measured again: its test program with POSIX threads and with fibers, under all its configurations.
//!
//! Source: Patel, Hidalgo and Ismail, Thread Scheduling (Rutgers CS518, assignment 1), which tried nine pairs of priority levels and running time, and
//! compared the best of them with POSIX threads, "to depress ourselves". What is run is in [`programs`], written once for [both](library); a run is a
//! process of its own, which is told by an [`order`] what to do and [serves](serve) it. [`runs`] are kept and ordered, [`table`] compares, [`claims`] are the
//! study's, judged, and [`simulated`] is the same in the simulator. This module starts no processes.

pub mod arms;
pub mod claims;
pub mod library;
pub mod order;
pub mod page;
pub mod programs;
pub mod report;
pub mod runs;
pub mod serve;
pub mod simulated;
pub mod table;
pub mod text;
pub mod work;

use self::arms::{Arm, CONFIGURATIONS, Configuration, System};
use self::order::Program;

/// A part of the study that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Where in the study that is.
    pub source: &'static str,
    /// What the study says there.
    pub shows: &'static str,
    /// About how long it takes, with all defaults, on two CPUs.
    pub takes: &'static str,
    /// What it is about.
    pub subject: Subject,
    /// How often everything is run where nobody says.
    pub repeat: u32,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// POSIX threads with fibers.
    Systems,
    /// Levels and running times with each other.
    Configurations,
    /// The same, and POSIX threads, where threads use up their running time.
    Workloads,
}

/// All of them.
pub const EXPERIMENTS: [Experiment; 3] = [
    Experiment {
        name: "threads/table2",
        source: "Patel, Hidalgo and Ismail, Thread Scheduling, table 2 and the chart after it",
        shows: "\"The POSIX library outperforms our thread scheduler with this testing program. It scales very well as the number of threads increases.\"",
        takes: "3 min",
        subject: Subject::Systems,
        repeat: 11,
    },
    Experiment {
        name: "threads/configs",
        source: "Patel, Hidalgo and Ismail, Thread Scheduling, table 1 and the charts after it",
        shows: "Configurations with few priority levels and a short running time are better where threads are few; they \"are outperformed by about 300%\" from \
                1000 threads on; and the configurations \"converge into three categories\".",
        takes: "1 min",
        subject: Subject::Configurations,
        repeat: 20,
    },
    Experiment {
        name: "threads/workloads",
        source: "Patel, Hidalgo and Ismail, Thread Scheduling, the last paragraph",
        shows: "\"Depending on the exact program specifics [...] and what kind of metrics are favorable (execution time, response time, etc), different \
                configurations of the thread scheduler would be more optimal.\"",
        takes: "1 min",
        subject: Subject::Workloads,
        repeat: 11,
    },
];

/// How many threads the study's program has there.
pub const THREADS: [u32; 5] = [50, 100, 500, 1000, 2000];

/// How many it has beyond the study.
pub const MORE_THREADS: [u32; 2] = [10_000, 100_000];

/// No program has more.
pub const MOST_THREADS: u32 = 1_000_000;

/// The study's table 2: threads, and the execution time with POSIX threads in microseconds.
pub const TABLE_2: [(u32, f64); 5] = [(50, 3510.0), (100, 6387.0), (500, 13_964.0), (1000, 28_759.0), (2000, 48_550.0)];

/// Of so many threads on, the study says that its configurations change places.
pub const MANY: u32 = 1000;

impl Experiment {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// The name as part of a file's name.
    pub fn stem(&self) -> String {
        self.name.replace('/', "-")
    }

    /// Which threads are compared; with preemptible fibers in place of the others, if so.
    pub fn arms(&self, preemptible: bool) -> Vec<Arm> {
        let posix = [System::Pthreads, System::PthreadsOnOneCpu].map(|system| Arm { system, configuration: None });
        let system = if preemptible { System::PreemptibleFibers } else { System::Fibers };
        let fibers = |configuration| Arm { system, configuration: Some(configuration) };
        match self.subject {
            Subject::Systems => posix.into_iter().chain([fibers(Configuration::DEFAULT)]).collect(),
            Subject::Configurations => CONFIGURATIONS.map(fibers).to_vec(),
            Subject::Workloads => posix.into_iter().chain(CONFIGURATIONS.map(fibers)).collect(),
        }
    }

    /// What they run.
    pub fn programs(&self) -> &'static [Program] {
        match self.subject {
            Subject::Systems | Subject::Configurations => &[Program::Study],
            Subject::Workloads => &[Program::Yields, Program::Locks, Program::Mixed],
        }
    }

    /// How many threads the study's program has where nobody says. The other programs have their own number.
    pub fn threads(&self) -> Vec<u32> {
        match self.subject {
            Subject::Systems => THREADS.into_iter().chain(MORE_THREADS).collect(),
            Subject::Configurations => THREADS.to_vec(),
            Subject::Workloads => Vec::new(),
        }
    }
}

/// What the study measured with POSIX threads, in microseconds.
pub fn of_the_study(threads: u32) -> Option<f64> {
    TABLE_2.iter().find(|(of, _)| *of == threads).map(|(_, microseconds)| *microseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_experiment_compares_different_things() {
        for experiment in EXPERIMENTS {
            assert_eq!(Experiment::named(experiment.name), Some(&experiment));
            let arms = [false, true].map(|preemptible| experiment.arms(preemptible));
            let names: BTreeSet<String> = arms.iter().flatten().map(Arm::name).collect();
            let of_the_kernel = arms[0].iter().filter(|arm| arm.is_of_the_kernel()).count();
            assert_eq!(names.len(), 2 * arms[0].len() - of_the_kernel);
        }
    }

    #[test]
    fn the_study_has_a_time_for_each_of_its_numbers_of_threads_and_for_no_other() {
        assert!(THREADS.into_iter().all(|threads| of_the_study(threads).is_some()));
        assert!(MORE_THREADS.into_iter().all(|threads| of_the_study(threads).is_none()));
    }
}
