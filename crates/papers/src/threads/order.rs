//! The order to a measuring process and its answer. Both are a line of JSON.

use serde::{Deserialize, Serialize};

use super::arms::Arm;

/// A program that runs with every kind of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// The study's program.
    Study,
    /// Threads that yield all the time.
    Yields,
    /// Threads that contend for a few locks.
    Locks,
    /// Threads that sleep and respond, beside others that compute.
    Mixed,
}

impl Program {
    /// The name of the program.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Study => "study",
            Program::Yields => "yields",
            Program::Locks => "locks",
            Program::Mixed => "mixed",
        }
    }

    /// A description of the program.
    pub const fn does(self) -> &'static str {
        match self {
            Program::Study => {
                "N threads, of which the even ones lock A and edit 16 words, the odd ones lock B and edit 16 others; every 16th joins its predecessor, the \
                 first joins the rest"
            }
            Program::Yields => {
                "32 threads compute for 2 us and 32 for 8 us, and yield, 200 times; the response is that of the former, from the yield to the end of the next 2 us"
            }
            Program::Locks => {
                "32 threads compute for 2 us, and for 3 us with one of 4 locks, and yield, 300 times; the response is from the yield to having given the lock back"
            }
            Program::Mixed => {
                "16 threads rest for 1 ms and answer in 20 us, 50 times, beside 4 that compute for 12 ms; the response is from the moment at which the rest is over \
                 to the answer"
            }
        }
    }
}

/// A measurement to be made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The program.
    pub program: Program,
    /// The threads.
    pub arm: Arm,
    /// The number of threads in the study's program.
    pub threads: u32,
    /// The number of runs after the first one, in the same process.
    pub warm: u32,
    /// The number of iterations of the work loop in a microsecond.
    pub rounds_per_us: f64,
}

/// Response times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Responses {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub worst: f64,
}

impl Responses {
    /// The percentiles of times in nanoseconds. `None` if there are no times.
    pub fn of(mut nanoseconds: Vec<u64>) -> Option<Responses> {
        nanoseconds.sort_unstable();
        let last = nanoseconds.len().checked_sub(1)?;
        // The smallest time that this percentage of the times does not exceed.
        let at =
            |percent: usize| nanoseconds[(nanoseconds.len() * percent).div_ceil(100).saturating_sub(1)] as f64 / 1e3;
        Some(Responses { p50: at(50), p95: at(95), p99: at(99), worst: nanoseconds[last] as f64 / 1e3 })
    }
}

/// The results of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The duration of the first run in microseconds, from before the runtime starts (if there is
    /// one) to the last join.
    pub cold_us: f64,
    /// The duration of each further run.
    pub warm_us: Vec<f64>,
    /// How often a fiber used up its running time, in all runs.
    pub demotions: Option<u64>,
    /// Response times of all runs except the first, if there are others. `None` if the program does
    /// not respond.
    pub responses: Option<Responses>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_smallest_measured_time_that_the_percentage_does_not_exceed() {
        let responses = Responses::of((1..=200).rev().map(|us| us * 1000).collect()).unwrap();
        assert_eq!(responses, Responses { p50: 100.0, p95: 190.0, p99: 198.0, worst: 200.0 });
        assert_eq!(Responses::of(vec![7000]).unwrap().p50, 7.0);
        assert_eq!(Responses::of(Vec::new()), None);
    }
}
