//! The measured programs and structures, with the measurements of the thesis.

use serde::{Deserialize, Serialize};

/// How columnsort computes, which decides what limits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Compares and moves whole records. The processors are the limit.
    ComputeBound,
    /// Computes as little as possible. The disk is the limit. Sorts twice as much, as in the
    /// thesis.
    IoBound,
}

impl Variant {
    /// Both variants.
    pub const ALL: [Variant; 2] = [Variant::ComputeBound, Variant::IoBound];

    /// The name, as in `rowlock sort --variant`.
    pub const fn name(self) -> &'static str {
        match self {
            Variant::ComputeBound => "compute-bound",
            Variant::IoBound => "io-bound",
        }
    }

    /// The factor by which the requested size is multiplied.
    pub const fn times(self) -> u64 {
        match self {
            Variant::ComputeBound => 1,
            Variant::IoBound => 2,
        }
    }
}

/// The processor use of the thesis' disk-limited program, in percent of one of two processors. Ours
/// is throttled to it.
pub const IO_BOUND_USE: f64 = 143.6;
/// The number of processors of the thesis' machine.
pub const PAPERS_CPUS: f64 = 2.0;

/// A program in a structure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arm {
    /// The program.
    pub variant: Variant,
    /// The name of the row.
    pub name: &'static str,
    /// The value of `ROWLOCK_PIPELINE`.
    pub structure: &'static str,
    /// The measurement of the thesis.
    pub paper: Option<PaperRow>,
}

/// A row of the thesis' tables. Times are in seconds. `None` if the thesis does not give the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PaperRow {
    /// The number of runs.
    pub observations: u32,
    /// User time.
    pub user_s: Option<f64>,
    /// System time.
    pub system_s: Option<f64>,
    /// The mean clock time.
    pub clock_s: f64,
    /// The standard error of the clock time.
    pub standard_error_s: Option<f64>,
    /// Processor time in percent of clock time.
    pub used_percent: Option<f64>,
}

const fn timed(observations: u32, user: f64, system: f64, clock_s: f64, used: f64) -> Option<PaperRow> {
    Some(PaperRow {
        observations,
        user_s: Some(user),
        system_s: Some(system),
        clock_s,
        standard_error_s: None,
        used_percent: Some(used),
    })
}

const fn arm(variant: Variant, name: &'static str, structure: &'static str, paper: Option<PaperRow>) -> Arm {
    Arm { variant, name, structure, paper }
}

use Variant::{ComputeBound, IoBound};

/// Tables 3 and 4, and two more rules. Each of the thesis' stages had its own thread.
pub const RULES: [Arm; 14] = [
    arm(ComputeBound, "default", "threads=each priority=default", timed(251, 23.50, 1.05, 12.61, 194.6)),
    arm(ComputeBound, "nice-down-io", "threads=each priority=nice-down-io", timed(227, 23.05, 1.05, 12.41, 194.1)),
    arm(ComputeBound, "nice-up-io", "threads=each priority=nice-up-io", timed(202, 22.24, 1.05, 12.05, 193.1)),
    arm(ComputeBound, "dynamic-up", "threads=each priority=dynamic-up", timed(143, 23.08, 1.05, 12.42, 194.0)),
    arm(
        ComputeBound,
        "dynamic-up-down",
        "threads=each priority=dynamic-up-down",
        timed(121, 23.06, 1.05, 12.44, 193.7),
    ),
    arm(ComputeBound, "input-queue", "threads=each priority=input-queue", None),
    arm(ComputeBound, "limiting-resource", "threads=each priority=limiting-resource", None),
    arm(IoBound, "default", "threads=each priority=default", timed(173, 23.88, 11.07, 24.26, 143.6)),
    arm(IoBound, "nice-down-io", "threads=each priority=nice-down-io", timed(112, 23.82, 11.10, 24.36, 142.9)),
    arm(IoBound, "nice-up-io", "threads=each priority=nice-up-io", timed(83, 23.99, 11.07, 24.21, 144.32)),
    arm(IoBound, "dynamic-up", "threads=each priority=dynamic-up", timed(83, 23.80, 11.10, 24.44, 142.4)),
    arm(IoBound, "dynamic-up-down", "threads=each priority=dynamic-up-down", timed(137, 24.05, 11.10, 24.56, 142.8)),
    arm(IoBound, "input-queue", "threads=each priority=input-queue", None),
    arm(IoBound, "limiting-resource", "threads=each priority=limiting-resource", None),
];

const fn kernel(observations: u32, clock_s: f64, standard_error: f64) -> PaperRow {
    PaperRow {
        observations,
        user_s: None,
        system_s: None,
        clock_s,
        standard_error_s: Some(standard_error),
        used_percent: None,
    }
}

/// The part of table 2 that one host can measure: one thread per stage, as with NPTL and
/// LinuxThreads, against many stages on few threads.
pub const THREADS: [Arm; 4] = [
    arm(ComputeBound, "threads", "threads=each", None),
    arm(ComputeBound, "workers", "threads=blocking", None),
    arm(IoBound, "threads", "threads=each", None),
    arm(IoBound, "workers", "threads=blocking", None),
];

/// Table 2: the variant, the row of the old kernel and that of the new one.
pub const KERNELS: [(Variant, PaperRow, PaperRow); 2] = [
    (ComputeBound, kernel(125, 13.38, 0.040), kernel(251, 12.61, 0.039)),
    (IoBound, kernel(41, 43.52, 0.58), kernel(43, 42.09, 0.26)),
];

/// I/O stages with different distances of priority from the others, for both kinds of priority.
pub const MAGNITUDES: [Arm; 7] = [
    arm(ComputeBound, "default", "threads=each", None),
    arm(ComputeBound, "nice 1", "threads=each nice=read:1 nice=write:1", None),
    arm(ComputeBound, "nice 5", "threads=each nice=read:5 nice=write:5", None),
    arm(ComputeBound, "nice 10", "threads=each nice=read:10 nice=write:10", None),
    arm(ComputeBound, "nice 19", "threads=each nice=read:19 nice=write:19", None),
    arm(ComputeBound, "fifo 1", "threads=each policy=read:fifo/1 policy=write:fifo/1", None),
    arm(ComputeBound, "fifo 20", "threads=each policy=read:fifo/20 policy=write:fifo/20", None),
];

#[cfg(test)]
mod tests {
    use super::*;
    use pipeline::structure::Structure;

    #[test]
    fn every_structure_is_valid() {
        for arm in RULES.iter().chain(&THREADS).chain(&MAGNITUDES) {
            assert!(arm.structure.parse::<Structure>().is_ok(), "{}", arm.structure);
        }
    }

    #[test]
    fn the_numbers_of_the_thesis_agree_with_each_other() {
        for paper in RULES.iter().filter_map(|arm| arm.paper) {
            let used = (paper.user_s.unwrap() + paper.system_s.unwrap()) / paper.clock_s * 100.0;
            assert!((used - paper.used_percent.unwrap()).abs() < 0.6, "{paper:?}");
        }
    }
}
