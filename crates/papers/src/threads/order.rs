//! What a process is told to measure, and what it answers. Both are a line of JSON.

use serde::{Deserialize, Serialize};

use super::arms::Arm;

/// A program that is run with threads of every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// The study's.
    Study,
    /// Threads that yield all the time.
    Yields,
    /// Threads that want the same few locks.
    Locks,
    /// Threads that rest and answer, beside some that compute.
    Mixed,
}

impl Program {
    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Study => "study",
            Program::Yields => "yields",
            Program::Locks => "locks",
            Program::Mixed => "mixed",
        }
    }

    /// What it does, in words.
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

/// What is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Which program.
    pub program: Program,
    /// With which threads.
    pub arm: Arm,
    /// How many, in the study's program.
    pub threads: u32,
    /// How many runs come after the first one, in the same process.
    pub warm: u32,
    /// How many rounds of the loop that stands for work take a microsecond.
    pub rounds_per_us: f64,
}

/// How long responses took, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Responses {
    /// Half took no longer.
    pub p50: f64,
    /// All but 5 % took no longer.
    pub p95: f64,
    /// All but 1 % took no longer.
    pub p99: f64,
    /// The longest.
    pub worst: f64,
}

impl Responses {
    /// Those of some times in nanoseconds; nothing without any.
    pub fn of(mut nanoseconds: Vec<u64>) -> Option<Responses> {
        nanoseconds.sort_unstable();
        let last = nanoseconds.len().checked_sub(1)?;
        // The smallest time that so many in a hundred do not exceed.
        let at =
            |percent: usize| nanoseconds[(nanoseconds.len() * percent).div_ceil(100).saturating_sub(1)] as f64 / 1e3;
        Some(Responses { p50: at(50), p95: at(95), p99: at(99), worst: nanoseconds[last] as f64 / 1e3 })
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// How long the first run took, in microseconds: from before there was a runtime, where there is one, to the last join.
    pub cold_us: f64,
    /// How long each further run took.
    pub warm_us: Vec<f64>,
    /// How often a fiber has used up its running time, in all runs.
    pub demotions: Option<u64>,
    /// Of programs that respond: of all runs but the first, if there are others.
    pub responses: Option<Responses>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_time_that_was_measured_and_that_so_many_do_not_exceed() {
        let responses = Responses::of((1..=200).rev().map(|us| us * 1000).collect()).unwrap();
        assert_eq!(responses, Responses { p50: 100.0, p95: 190.0, p99: 198.0, worst: 200.0 });
        assert_eq!(Responses::of(vec![7000]).unwrap().p50, 7.0);
        assert_eq!(Responses::of(Vec::new()), None);
    }
}
