//! Priority: which stages of a pipeline are favoured by the machine's scheduler, and when.
//!
//! Source: Roysden, "Scheduling Pipelined, Multi-Threaded Programs in Linux", Dartmouth TR2004-500, 2004. A pipelined program is as
//! slow as its limiting resource (section 1). Who knows that resource favours the stages that use it from the beginning:
//! *fixed* scheduling (section 4). Who does not, guesses from the queues between the stages while they work: *adjusting*
//! scheduling. The program is to lower the stages that run ahead, or to raise those that lag behind (sections 1 and 4). The last rule is
//! our own: it finds the limiting resource while the program runs.
//!
//! A rule says *favoured* and *lowered*; what that means is the world's. On Linux it is a nice value, whose size
//! made no difference in the source but does in the kernels of today.
//!
//! Each rule stands in a module of its own, with its source and its deviations at the head.
//!
//! # Who asks what
//!
//! A world keeps a [`StagePolicy`] for each stage (for each copy of one that is forked), and asks it once before the first round, and
//! then at every buffer that the stage accepts or conveys, with what the queue told. Where the rule has an
//! [`PriorityController`], it asks that one as well, every [`PriorityController::PERIOD`], with what all stages did meanwhile.
//!
//! The pool of free buffers counts as a queue: that to which the last stage conveys and from which the first accepts. A pool that fills up
//! says that the first stage lags behind all others.

mod dynamic_up;
mod dynamic_up_down;
mod input_queue;
mod limit;
mod limiting_resource;
mod rule;

use std::fmt;
use std::str::FromStr;

use self::dynamic_up::DynamicUp;
use self::dynamic_up_down::DynamicUpDown;
use self::input_queue::InputQueue;
pub use self::limit::{Limit, MachineObservation, StageObservation, limit};
pub use self::limiting_resource::PriorityController;
pub use self::rule::{PriorityRule, UnknownPriorityRule};

/// What a stage mostly does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum StageKind {
    /// Reads from or writes to a device, and blocks meanwhile.
    Io,
    /// Computes, and does not block.
    Compute,
    /// Sends to or receives from other programs or machines, and blocks meanwhile.
    Communicate,
}

impl StageKind {
    /// All of them.
    pub const ALL: [StageKind; 3] = [StageKind::Io, StageKind::Compute, StageKind::Communicate];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            StageKind::Io => "io",
            StageKind::Compute => "compute",
            StageKind::Communicate => "communicate",
        }
    }

    /// Whether a stage of this kind waits for something else than a CPU.
    pub const fn blocks(self) -> bool {
        !matches!(self, StageKind::Compute)
    }
}

impl fmt::Display for StageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StageKind {
    type Err = UnknownStageKind;

    fn from_str(text: &str) -> Result<StageKind, UnknownStageKind> {
        StageKind::ALL
            .into_iter()
            .find(|kind| kind.name() == text.trim())
            .ok_or_else(|| UnknownStageKind(text.to_owned()))
    }
}

/// A text that is no kind of stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownStageKind(String);

impl fmt::Display for UnknownStageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a kind of stage: the kinds are io, compute and communicate", self.0)
    }
}

impl std::error::Error for UnknownStageKind {}

/// How the scheduler shall treat a stage, compared with how it treats the program by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum StagePriority {
    /// After others: nice up.
    Lowered,
    /// As any thread of the program.
    #[default]
    Neutral,
    /// Before others: nice down.
    Raised,
}

/// One stage's side of a rule: what it remembers of its own queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePolicy {
    priority: StagePriority,
    rule: QueueRule,
}

/// An enum rather than a trait object: a stage is asked twice a round.
#[derive(Clone, Debug, PartialEq, Eq)]
enum QueueRule {
    /// The favour that it begins with is for ever.
    Never,
    DynamicUp(DynamicUp),
    DynamicUpDown(DynamicUpDown),
    InputQueue(InputQueue),
}

impl StagePolicy {
    /// What it is to begin with; to be asked once, before its first round. Whoever asks again begins anew.
    pub fn begin(&mut self) -> StagePriority {
        match self.rule {
            QueueRule::Never => {}
            QueueRule::DynamicUp(_) | QueueRule::DynamicUpDown(_) | QueueRule::InputQueue(_) => {
                self.priority = StagePriority::Neutral
            }
        }
        self.priority
    }

    /// It has accepted a buffer, and so many were left in its input queue. Its new priority, where that changes.
    #[inline]
    pub fn accepted(&mut self, left_in_input: u32) -> Option<StagePriority> {
        match &self.rule {
            QueueRule::Never | QueueRule::DynamicUp(_) | QueueRule::DynamicUpDown(_) => None,
            QueueRule::InputQueue(rule) => self.change_to(rule.accepted(self.priority, left_in_input)),
        }
    }

    /// It has conveyed a buffer, and so many *others* were in its output queue at that moment. Its new priority, where that
    /// changes.
    #[inline]
    pub fn conveyed(&mut self, others_in_output: u32) -> Option<StagePriority> {
        match &self.rule {
            QueueRule::Never | QueueRule::InputQueue(_) => None,
            QueueRule::DynamicUp(rule) => self.change_to(rule.conveyed(self.priority, others_in_output)),
            QueueRule::DynamicUpDown(rule) => self.change_to(rule.conveyed(self.priority, others_in_output)),
        }
    }

    fn change_to(&mut self, priority: StagePriority) -> Option<StagePriority> {
        (std::mem::replace(&mut self.priority, priority) != priority).then_some(priority)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kinds_read_back_as_they_are_printed_and_others_are_refused() {
        for kind in StageKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let why = "ioo".parse::<StageKind>().unwrap_err();
        assert_eq!(why.to_string(), "`ioo` is not a kind of stage: the kinds are io, compute and communicate");
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Accepted(u32),
        Conveyed(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![(0_u32..5).prop_map(Step::Accepted), (0_u32..5).prop_map(Step::Conveyed)];
        prop::collection::vec(step, 0..60)
    }

    /// All changes that the stage asks for.
    fn changes(stage: &mut StagePolicy, steps: &[Step]) -> Vec<StagePriority> {
        let change = |step: &Step| match *step {
            Step::Accepted(left) => stage.accepted(left),
            Step::Conveyed(others) => stage.conveyed(others),
        };
        steps.iter().filter_map(change).collect()
    }

    proptest! {
        #[test]
        fn a_change_is_only_told_where_there_is_one(steps in steps(), rule in 0..PriorityRule::ALL.len(), kind in 0..3_usize) {
            let mut stage = PriorityRule::ALL[rule].stage(StageKind::ALL[kind]);
            let first = stage.begin();
            let all: Vec<StagePriority> = [first].into_iter().chain(changes(&mut stage, &steps)).collect();
            prop_assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", all);
            // Who begins anew has forgotten all.
            prop_assert_eq!(stage.begin(), first);
            prop_assert_eq!(stage, PriorityRule::ALL[rule].stage(StageKind::ALL[kind]));
        }

        #[test]
        fn only_the_rules_that_watch_queues_change_their_mind(steps in steps(), rule in 0..PriorityRule::ALL.len()) {
            let rule = PriorityRule::ALL[rule];
            let mut stage = rule.stage(StageKind::Io);
            stage.begin();
            prop_assert!(rule.uses_queues() || changes(&mut stage, &steps).is_empty());
        }

        #[test]
        fn dynamic_up_lowers_once_and_for_ever(steps in steps()) {
            let mut stage = PriorityRule::DynamicUp.stage(StageKind::Compute);
            let changes = changes(&mut stage, &steps);
            prop_assert!(changes.is_empty() || changes == [StagePriority::Lowered], "{:?}", changes);
        }

        #[test]
        fn nobody_is_raised_who_only_looks_at_its_output_and_nobody_lowered_who_only_looks_at_its_input(steps in steps()) {
            let mut output = PriorityRule::DynamicUpDown.stage(StageKind::Compute);
            prop_assert!(!changes(&mut output, &steps).contains(&StagePriority::Raised));
            let mut input = PriorityRule::InputQueue.stage(StageKind::Compute);
            prop_assert!(!changes(&mut input, &steps).contains(&StagePriority::Lowered));
        }
    }
}
