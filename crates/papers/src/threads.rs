//! A study of a user-level thread library, repeated: its test program with POSIX threads and with
//! fibers, in all configurations.
//!
//! Source: Patel, Hidalgo and Ismail, Thread Scheduling (Rutgers CS518, assignment 1). They tried
//! nine pairs of priority levels and running time, and compared the best with POSIX threads, "to
//! depress ourselves". The [`programs`] are generic over the [thread library](library). Each run is
//! a separate process, which makes one [`measurement`]. [`runs`] has the observations, [`table`]
//! compares them, [`claims`] judges the study's claims, and [`simulated`] has the same programs in
//! the simulator. This module starts no processes.

pub mod arms;
pub mod claims;
pub mod library;
pub mod measurement;
pub mod page;
pub mod programs;
pub mod report;
pub mod runs;
pub mod simulated;
pub mod table;
pub mod text;

use self::arms::{Arm, CONFIGURATIONS, Configuration, System};
use self::programs::Program;

/// A part of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// POSIX threads against fibers.
    Systems,
    /// Levels and running times against each other.
    Configurations,
    /// POSIX threads and all configurations with programs that use up their running time.
    Workloads,
}

/// Further numbers of threads.
pub const MORE_THREADS: [u32; 2] = [10_000, 100_000];

/// The maximum number of threads of a program.
pub const MOST_THREADS: u32 = 1_000_000;

/// The study's table 2: threads, and the execution time with POSIX threads in microseconds.
pub const TABLE_2: [(u32, f64); 5] = [(50, 3510.0), (100, 6387.0), (500, 13_964.0), (1000, 28_759.0), (2000, 48_550.0)];

/// The number of threads from which on, in the study, other configurations are the best.
pub const MANY: u32 = 1000;

impl Experiment {
    /// The default number of runs of everything.
    pub fn repeat(self) -> u32 {
        if self == Experiment::Configurations { 20 } else { 11 }
    }

    /// The compared threads. Fibers are preemptible if requested.
    pub fn arms(self, preemptible: bool) -> Vec<Arm> {
        let posix = [System::Pthreads, System::PthreadsOnOneCpu].map(|system| Arm { system, configuration: None });
        let system = if preemptible { System::PreemptibleFibers } else { System::Fibers };
        let fibers = |configuration| Arm { system, configuration: Some(configuration) };
        match self {
            Experiment::Systems => posix.into_iter().chain([fibers(Configuration::DEFAULT)]).collect(),
            Experiment::Configurations => CONFIGURATIONS.map(fibers).to_vec(),
            Experiment::Workloads => posix.into_iter().chain(CONFIGURATIONS.map(fibers)).collect(),
        }
    }

    /// The programs.
    pub fn programs(self) -> &'static [Program] {
        match self {
            Experiment::Systems | Experiment::Configurations => &[Program::Study],
            Experiment::Workloads => &[Program::Yields, Program::Locks, Program::Mixed],
        }
    }

    /// The default numbers of threads of the study's program. The numbers of the others are fixed.
    pub fn threads(self) -> Vec<u32> {
        let of_the_study = TABLE_2.into_iter().map(|(threads, _)| threads);
        match self {
            Experiment::Systems => of_the_study.chain(MORE_THREADS).collect(),
            Experiment::Configurations => of_the_study.collect(),
            Experiment::Workloads => Vec::new(),
        }
    }
}

/// The study's measurement with POSIX threads, in microseconds.
pub fn study_us(threads: u32) -> Option<f64> {
    TABLE_2.iter().find(|(of, _)| *of == threads).map(|(_, microseconds)| *microseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_experiment_compares_different_arms() {
        for experiment in [Experiment::Systems, Experiment::Configurations, Experiment::Workloads] {
            let arms = [false, true].map(|preemptible| experiment.arms(preemptible));
            let names: BTreeSet<String> = arms.iter().flatten().map(Arm::name).collect();
            let of_the_kernel = arms[0].iter().filter(|arm| arm.is_of_the_kernel()).count();
            assert_eq!(names.len(), 2 * arms[0].len() - of_the_kernel);
        }
    }
}
