//! Priority rules: which stages of a pipeline the scheduler prefers, and when.
//!
//! Source: Roysden, "Scheduling Pipelined, Multi-Threaded Programs in Linux", Dartmouth TR2004-500,
//! 2004. A pipelined program is as slow as its limiting resource (section 1). A programmer who
//! knows that resource raises the stages that use it from the start: *fixed* scheduling (section
//! 4). One who does not know it can estimate it from the queues between the stages at run time:
//! *adjusting* scheduling. The program lowers the stages that run ahead, or raises those that lag
//! behind (sections 1 and 4). The last rule is our own: it finds the limiting resource while the
//! program runs.
//!
//! A rule says *raised* or *lowered*; the world decides what that means. On Linux it is a nice
//! value. Its size made no difference in the source, but it does in current kernels.
//!
//! The modules of the rules state their sources and deviations.
//!
//! # Use
//!
//! A world keeps a [`StagePolicy`] for each stage (for each copy of a forked stage). It asks it
//! once before the first round, and then at every buffer that the stage accepts or conveys, with
//! the state of the queue. If the rule has a [`PriorityController`], the world also asks that every
//! [`PriorityController::PERIOD`], with what all stages have done since.
//!
//! The pool of free buffers counts as a queue: the last stage conveys to it and the first accepts
//! from it. A pool that fills up means that the first stage lags behind all others.

mod limit;
mod limiting_resource;
mod queue_rule;
mod rule;

pub use self::limit::{Limit, MachineObservation, StageObservation, limit};
pub use self::limiting_resource::PriorityController;
use self::queue_rule::QueueRule;
pub use self::rule::PriorityRule;
use crate::parse::named;

/// The main activity of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum StageKind {
    /// Reads from or writes to a device, and blocks meanwhile.
    Io,
    /// Computes, and does not block.
    #[default]
    Compute,
    /// Sends to or receives from other programs or machines, and blocks meanwhile.
    Communicate,
}

impl StageKind {
    /// All kinds.
    pub const ALL: [StageKind; 3] = [StageKind::Io, StageKind::Compute, StageKind::Communicate];

    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            StageKind::Io => "io",
            StageKind::Compute => "compute",
            StageKind::Communicate => "communicate",
        }
    }

    /// Whether a stage of this kind waits for anything but a CPU.
    pub const fn blocks(self) -> bool {
        !matches!(self, StageKind::Compute)
    }
}

named!(
    StageKind,
    |text| text.trim(),
    format!("`{text}` is not a kind of stage: the kinds are io, compute and communicate")
);

/// The priority of a stage, relative to the other threads of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum StagePriority {
    /// Runs after others: nice up.
    Lowered,
    /// Like any thread of the program.
    #[default]
    Neutral,
    /// Runs before others: nice down.
    Raised,
}

/// A priority rule as one stage applies it, with its present priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePolicy {
    priority: StagePriority,
    rule: QueueRule,
}

impl StagePolicy {
    /// Returns the initial priority; to be called once, before the first round. Another call starts
    /// over.
    pub fn begin(&mut self) -> StagePriority {
        if self.rule != QueueRule::Never {
            self.priority = StagePriority::Neutral;
        }
        self.priority
    }

    /// Records that the stage has accepted a buffer and left this many in its input queue. Returns
    /// the new priority, if it changes.
    #[inline]
    pub fn accepted(&mut self, left_in_input: u32) -> Option<StagePriority> {
        self.change_to(self.rule.accepted(self.priority, left_in_input))
    }

    /// Records that the stage has conveyed a buffer while this many *others* were in its output
    /// queue. Returns the new priority, if it changes.
    #[inline]
    pub fn conveyed(&mut self, others_in_output: u32) -> Option<StagePriority> {
        self.change_to(self.rule.conveyed(self.priority, others_in_output))
    }

    #[inline]
    fn change_to(&mut self, priority: StagePriority) -> Option<StagePriority> {
        (std::mem::replace(&mut self.priority, priority) != priority).then_some(priority)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kinds_parse_back_as_printed_and_others_are_rejected() {
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

    fn change(stage: &mut StagePolicy, step: Step) -> Option<StagePriority> {
        match step {
            Step::Accepted(left) => stage.accepted(left),
            Step::Conveyed(others) => stage.conveyed(others),
        }
    }

    /// All changes that the stage asks for.
    fn changes(stage: &mut StagePolicy, steps: &[Step]) -> Vec<StagePriority> {
        steps.iter().filter_map(|&step| change(stage, step)).collect()
    }

    #[test]
    fn a_stage_follows_its_queues() {
        use Step::{Accepted, Conveyed};
        let [lowered, neutral, raised] =
            [StagePriority::Lowered, StagePriority::Neutral, StagePriority::Raised].map(Some);
        // A second buffer in the output lowers, and nothing raises again.
        let up = [
            (Conveyed(0), None),
            (Accepted(7), None),
            (Conveyed(1), lowered),
            (Conveyed(5), None),
            (Conveyed(0), None),
        ];
        // An empty output undoes the effect of a backup.
        let up_down = [
            (Conveyed(0), None),
            (Conveyed(2), lowered),
            (Conveyed(1), None),
            (Conveyed(0), neutral),
            (Conveyed(1), lowered),
        ];
        // Two waiting buffers raise, and none returns to normal.
        let none = [(Accepted(0), None), (Accepted(1), None), (Conveyed(9), None)];
        let input = [
            (Accepted(2), raised),
            (Accepted(3), None),
            (Accepted(1), None),
            (Accepted(0), neutral),
            (Accepted(1), None),
        ];
        for (rule, kind, steps) in [
            (PriorityRule::DynamicUp, StageKind::Io, up.to_vec()),
            (PriorityRule::DynamicUpDown, StageKind::Io, up_down.to_vec()),
            (PriorityRule::InputQueue, StageKind::Compute, [&none[..], &input[..]].concat()),
        ] {
            let mut stage = rule.stage(kind);
            assert_eq!(stage.begin(), StagePriority::Neutral, "{rule}");
            for (step, expected) in steps {
                assert_eq!(change(&mut stage, step), expected, "{rule} {step:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn only_real_changes_are_reported(steps in steps(), rule in 0..PriorityRule::ALL.len(), kind in 0..3_usize) {
            let mut stage = PriorityRule::ALL[rule].stage(StageKind::ALL[kind]);
            let first = stage.begin();
            let all: Vec<StagePriority> = [first].into_iter().chain(changes(&mut stage, &steps)).collect();
            prop_assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", all);
            // A stage that starts over has forgotten everything.
            prop_assert_eq!(stage.begin(), first);
            prop_assert_eq!(stage, PriorityRule::ALL[rule].stage(StageKind::ALL[kind]));
        }

        #[test]
        fn only_rules_that_use_queues_change_priorities(steps in steps(), rule in 0..PriorityRule::ALL.len()) {
            let rule = PriorityRule::ALL[rule];
            let mut stage = rule.stage(StageKind::Io);
            stage.begin();
            prop_assert!(rule.has_queue_rule() || changes(&mut stage, &steps).is_empty());
        }

        #[test]
        fn dynamic_up_lowers_once_and_permanently(steps in steps()) {
            let mut stage = PriorityRule::DynamicUp.stage(StageKind::Compute);
            let changes = changes(&mut stage, &steps);
            prop_assert!(changes.is_empty() || changes == [StagePriority::Lowered], "{:?}", changes);
        }

        #[test]
        fn output_rules_never_raise_a_stage_and_input_rules_never_lower_one(steps in steps()) {
            let mut output = PriorityRule::DynamicUpDown.stage(StageKind::Compute);
            prop_assert!(!changes(&mut output, &steps).contains(&StagePriority::Raised));
            let mut input = PriorityRule::InputQueue.stage(StageKind::Compute);
            prop_assert!(!changes(&mut input, &steps).contains(&StagePriority::Lowered));
        }
    }
}
