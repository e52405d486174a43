//! What is compared: threads of the kernel, and fibers under the study's configurations.

use policy::Span;
use policy::feedback::FeedbackRules;
use serde::{Deserialize, Serialize};

/// Whose threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// The kernel's, on all CPUs.
    Pthreads,
    /// The kernel's, on one CPU, "without any parallelism".
    PthreadsOnOneCpu,
    /// Rowlock's, on one kernel thread.
    Fibers,
    /// The same, preemptible.
    PreemptibleFibers,
}

/// Levels and running time of a feedback queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Configuration {
    /// Priority levels.
    pub levels: u32,
    /// Running time, in microseconds: the study gives no unit, and this is our reading.
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

/// Those with the smaller values for both, each at most one step from the smallest. The study does not say which it means.
pub const SMALL: [Configuration; 3] = [of(10, 50), of(10, 100), of(50, 50)];

/// Those with the larger values for both, each at most one step from the largest.
pub const LARGE: [Configuration; 3] = [of(50, 150), of(100, 100), of(100, 150)];

/// "The best performing configurations" of the study.
pub const BEST: [Configuration; 3] = [of(50, 50), of(50, 150), of(100, 150)];

impl Configuration {
    /// That of a runtime for which nobody chooses another.
    pub const DEFAULT: Configuration = of(10, 100);

    /// As the study writes it: levels, then running time.
    pub fn name(&self) -> String {
        format!("{}/{}", self.levels, self.running_time_us)
    }

    /// The rules of such a queue. The period of its boost, of which the study knows nothing, is the default.
    pub fn rules(&self) -> FeedbackRules {
        FeedbackRules {
            levels: self.levels,
            running_time: Span::from_micros(u64::from(self.running_time_us)),
            ..FeedbackRules::default()
        }
    }
}

/// What programs are run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Arm {
    /// Whose threads.
    pub system: System,
    /// Of fibers.
    pub configuration: Option<Configuration>,
}

impl Arm {
    /// What it is called in tables.
    pub fn name(&self) -> String {
        match (self.system, self.configuration) {
            (System::Pthreads, _) => "pthreads".to_owned(),
            (System::PthreadsOnOneCpu, _) => "pthreads, one CPU".to_owned(),
            (System::Fibers, None) => "fibers".to_owned(),
            (System::Fibers, Some(configuration)) => format!("fibers {}", configuration.name()),
            (System::PreemptibleFibers, None) => "preemptible".to_owned(),
            (System::PreemptibleFibers, Some(configuration)) => format!("preemptible {}", configuration.name()),
        }
    }

    /// Whether the kernel schedules each of its threads.
    pub fn is_of_the_kernel(&self) -> bool {
        matches!(self.system, System::Pthreads | System::PthreadsOnOneCpu)
    }

    /// Whether all is to be on one CPU.
    pub fn is_on_one_cpu(&self) -> bool {
        self.system != System::Pthreads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_settings_are_of_the_table_and_as_far_from_its_middle() {
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
    fn what_nobody_chooses_is_the_default_of_the_feedback_queue() {
        assert_eq!(Configuration::DEFAULT.rules(), FeedbackRules::default());
    }
}
