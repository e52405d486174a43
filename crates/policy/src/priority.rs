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
//! A world keeps a [`StagePolicy`] for each stage (for each copy of a forked stage). It applies the
//! initial priority before the first round, reports every buffer that the stage accepts or conveys,
//! with the state of the queue, and applies the new priority. If the rule has a
//! [`PriorityController`], the world also asks that every [`PriorityController::PERIOD`], with what
//! all stages have done since.
//!
//! The pool of free buffers counts as a queue: the last stage conveys to it and the first accepts
//! from it. A pool that fills up means that the first stage lags behind all others.

mod limit;
mod limiting_resource;
mod queue_rule;
mod rule;

pub use self::limit::{Limit, MachineObservation, NEARLY_ALWAYS, StageObservation, limit};
pub use self::limiting_resource::PriorityController;
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
    /// Whether a stage of this kind waits for anything but a CPU.
    pub const fn blocks(self) -> bool {
        !matches!(self, StageKind::Compute)
    }
}

named!(
    StageKind { Io = "io", Compute = "compute", Communicate = "communicate", }
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

/// A priority rule as one stage applies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePolicy {
    /// The current priority of the stage. A world may set it to what a [`PriorityController`]
    /// decides.
    pub priority: StagePriority,
    rule: PriorityRule,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_parse_back_as_printed_and_others_are_rejected() {
        for kind in StageKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let why = "ioo".parse::<StageKind>().unwrap_err();
        assert_eq!(why.to_string(), "`ioo` is not a kind of stage: the kinds are io, compute and communicate");
        for rule in PriorityRule::ALL {
            assert_eq!(format!(" {rule} ").parse(), Ok(rule));
        }
        let why = "nice-up".parse::<PriorityRule>().unwrap_err().to_string();
        assert!(why.starts_with("`nice-up` is not a priority rule: the rules are default, nice-down-io, "), "{why}");
        assert!(why.ends_with(", input-queue, limiting-resource"), "{why}");
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

    /// The priorities of a stage before the first round and after each step.
    fn priorities(rule: PriorityRule, kind: StageKind, steps: &[Step]) -> Vec<StagePriority> {
        let mut stage = rule.stage(kind);
        let change = |&step: &Step| {
            match step {
                Step::Accepted(left) => stage.accepted(left),
                Step::Conveyed(others) => stage.conveyed(others),
            }
            stage.priority
        };
        [rule.stage(kind).priority].into_iter().chain(steps.iter().map(change)).collect()
    }

    #[test]
    fn a_stage_follows_its_queues() {
        use StagePriority::{Lowered, Neutral, Raised};
        use Step::{Accepted, Conveyed};
        // A second buffer in the output lowers, and nothing raises again.
        let up = [
            (Conveyed(0), Neutral),
            (Accepted(7), Neutral),
            (Conveyed(1), Lowered),
            (Conveyed(5), Lowered),
            (Conveyed(0), Lowered),
        ];
        // An empty output undoes the effect of a backup.
        let up_down = [
            (Conveyed(0), Neutral),
            (Conveyed(2), Lowered),
            (Conveyed(1), Lowered),
            (Conveyed(0), Neutral),
            (Conveyed(1), Lowered),
        ];
        // Two waiting buffers raise, and none returns to normal.
        let input = [
            (Accepted(0), Neutral),
            (Accepted(1), Neutral),
            (Conveyed(9), Neutral),
            (Accepted(2), Raised),
            (Accepted(3), Raised),
            (Accepted(1), Raised),
            (Accepted(0), Neutral),
            (Accepted(1), Neutral),
        ];
        for (rule, expected) in [
            (PriorityRule::DynamicUp, &up[..]),
            (PriorityRule::DynamicUpDown, &up_down),
            (PriorityRule::InputQueue, &input),
        ] {
            let (steps, after): (Vec<Step>, Vec<StagePriority>) = expected.iter().copied().unzip();
            assert_eq!(priorities(rule, StageKind::Io, &steps), [&[Neutral], &after[..]].concat(), "{rule}");
        }
    }

    proptest! {
        #[test]
        fn rules_change_priorities_only_as_they_say(steps in steps(), rule in 0..PriorityRule::ALL.len(), kind in 0..3_usize) {
            use StagePriority::{Lowered, Neutral, Raised};
            let (rule, kind) = (PriorityRule::ALL[rule], StageKind::ALL[kind]);
            let all = priorities(rule, kind, &steps);
            let only = |allowed: &[StagePriority]| all.iter().all(|priority| allowed.contains(priority));
            let as_they_say = match rule {
                PriorityRule::NiceDown(which) => only(&[if which == kind { Raised } else { Neutral }]),
                PriorityRule::NiceUp(which) => only(&[if which == kind { Lowered } else { Neutral }]),
                PriorityRule::Default | PriorityRule::LimitingResource => only(&[Neutral]),
                // Once and permanently.
                PriorityRule::DynamicUp => only(&[Neutral, Lowered]) && all.is_sorted_by_key(|&at| at == Lowered),
                PriorityRule::DynamicUpDown => only(&[Neutral, Lowered]),
                PriorityRule::InputQueue => only(&[Neutral, Raised]),
            };
            prop_assert!(as_they_say, "{rule}: {all:?}");
            prop_assert!(rule.has_queue_rule() || only(&all[..1]));
        }
    }
}
