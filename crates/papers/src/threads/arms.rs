//! The arms: kernel threads, and fibers with the configurations of the study.

use policy::Span;
use policy::feedback::FeedbackRules;
use serde::{Deserialize, Serialize};

/// The kind of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Kernel threads on all CPUs.
    Pthreads,
    /// Kernel threads on one CPU, "without any parallelism".
    PthreadsOnOneCpu,
    /// Fibers on one kernel thread.
    Fibers,
    /// Preemptible fibers on one kernel thread.
    PreemptibleFibers,
}

/// Levels and running time of a feedback queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Configuration {
    /// The number of priority levels.
    pub levels: u32,
    /// The running time in microseconds. The study gives no unit; this is our interpretation.
    pub running_time_us: u32,
}

const fn of(levels: u32, running_time_us: u32) -> Configuration {
    Configuration { levels, running_time_us }
}

/// The study's table 1, in its order.
pub const CONFIGURATIONS: [Configuration; 9] = [
    of(10, 50),
    of(10, 100),
    of(10, 150),
    of(50, 50),
    of(50, 100),
    of(50, 150),
    of(100, 50),
    of(100, 100),
    of(100, 150),
];

/// The configurations with smaller values of both, at most one step from the smallest. The study
/// does not say which it means.
pub const SMALL: [Configuration; 3] = [of(10, 50), of(10, 100), of(50, 50)];

/// The configurations with larger values of both, at most one step from the largest.
pub const LARGE: [Configuration; 3] = [of(50, 150), of(100, 100), of(100, 150)];

/// "The best performing configurations" of the study.
pub const BEST: [Configuration; 3] = [of(50, 50), of(50, 150), of(100, 150)];

impl Configuration {
    /// The default configuration of a runtime.
    pub const DEFAULT: Configuration = of(10, 100);

    /// The name in the study's notation: levels, then running time.
    pub fn name(&self) -> String {
        format!("{}/{}", self.levels, self.running_time_us)
    }

    /// The rules of such a queue. The study does not mention the period of the boost, which is the
    /// default.
    pub fn rules(&self) -> FeedbackRules {
        FeedbackRules {
            levels: self.levels,
            running_time: Span::from_micros(u64::from(self.running_time_us)),
            ..FeedbackRules::default()
        }
    }
}

/// The threads with which programs are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Arm {
    /// The kind of threads.
    pub system: System,
    /// The configuration of fibers.
    pub configuration: Option<Configuration>,
}

impl Arm {
    /// The name in tables.
    pub fn name(&self) -> String {
        let system = match self.system {
            System::Pthreads => "pthreads",
            System::PthreadsOnOneCpu => "pthreads, one CPU",
            System::Fibers => "fibers",
            System::PreemptibleFibers => "preemptible",
        };
        self.configuration.map_or(system.to_owned(), |configuration| format!("{system} {}", configuration.name()))
    }

    /// Whether the kernel schedules each of its threads.
    pub fn is_of_the_kernel(&self) -> bool {
        matches!(self.system, System::Pthreads | System::PthreadsOnOneCpu)
    }

    /// Whether all threads are on one CPU.
    pub fn is_on_one_cpu(&self) -> bool {
        self.system != System::Pthreads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_configurations_are_equally_far_from_the_middle_of_the_table() {
        let rank = |values: [u32; 3], value: u32| values.iter().position(|of| *of == value).unwrap();
        let steps = |of: &Configuration| rank([10, 50, 100], of.levels) + rank([50, 100, 150], of.running_time_us);
        let with = |test: &dyn Fn(usize) -> bool| {
            CONFIGURATIONS.iter().copied().filter(|of| test(steps(of))).collect::<Vec<_>>()
        };
        assert_eq!(with(&|steps| steps <= 1), SMALL);
        assert_eq!(with(&|steps| steps >= 3), LARGE);
        assert!(BEST.iter().all(|best| CONFIGURATIONS.contains(best)));
    }

    #[test]
    fn the_default_configuration_is_that_of_the_feedback_queue() {
        assert_eq!(Configuration::DEFAULT.rules(), FeedbackRules::default());
    }
}
