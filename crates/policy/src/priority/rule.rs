//! Priority rules as they are written.

use super::{PriorityController, StageKind, StagePolicy, StagePriority};
use crate::parse::named;

/// A priority rule.
///
/// [`crate::table::PRIORITY`] lists all forms. The printed form parses back to the same rule.
///
/// `NiceDown` and `NiceUp` are fixed: the stages of one kind have another priority from start to
/// end. Source: Roysden, section 4, "Fixed scheduling", where "nice down" raises, as in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PriorityRule {
    /// All stages are equal.
    #[default]
    Default,
    /// The stages of this kind are raised: their nice values go down.
    NiceDown(StageKind),
    /// The stages of this kind are lowered: their nice values go up.
    NiceUp(StageKind),
    /// A stage whose output queue is backed up lowers itself, once and permanently.
    DynamicUp,
    /// A stage whose output queue is backed up lowers itself until it finds it empty.
    DynamicUpDown,
    /// A stage with several waiting buffers is raised until none waits.
    InputQueue,
    /// The stages that use what limits the program are raised, as found while it runs.
    LimitingResource,
}

named!(
    PriorityRule {
        Default = "default",
        NiceDown(StageKind::Io) = "nice-down-io",
        NiceUp(StageKind::Io) = "nice-up-io",
        NiceDown(StageKind::Compute) = "nice-down-compute",
        NiceUp(StageKind::Compute) = "nice-up-compute",
        NiceDown(StageKind::Communicate) = "nice-down-communicate",
        NiceUp(StageKind::Communicate) = "nice-up-communicate",
        DynamicUp = "dynamic-up",
        DynamicUpDown = "dynamic-up-down",
        InputQueue = "input-queue",
        LimitingResource = "limiting-resource",
    }
    |text| text.trim(),
    {
        let rules = PriorityRule::ALL.map(PriorityRule::name).join(", ");
        format!("`{text}` is not a priority rule: the rules are {rules}")
    }
);

impl PriorityRule {
    /// The rule as a stage of this kind applies it from the beginning.
    pub fn stage(self, kind: StageKind) -> StagePolicy {
        let priority = match self {
            PriorityRule::NiceDown(which) if which == kind => StagePriority::Raised,
            PriorityRule::NiceUp(which) if which == kind => StagePriority::Lowered,
            _ => StagePriority::Neutral,
        };
        StagePolicy { priority, rule: self }
    }

    /// The controller of all stages together, if the rule has one.
    pub fn controller(self) -> Option<PriorityController> {
        (self == PriorityRule::LimitingResource).then(PriorityController::new)
    }

    /// Whether [`StagePolicy::accepted`] and [`StagePolicy::conveyed`] have any effect; if not, a
    /// world may skip the calls.
    pub const fn has_queue_rule(self) -> bool {
        matches!(self, PriorityRule::DynamicUp | PriorityRule::DynamicUpDown | PriorityRule::InputQueue)
    }
}
