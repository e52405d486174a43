//! Priority rules as they are written.

use super::{PriorityController, QueueRule, StageKind, StagePolicy, StagePriority};
use crate::parse::named;

/// A priority rule.
///
/// [`crate::table::PRIORITY`] lists all forms. The printed form parses back to the same rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PriorityRule {
    /// All stages are equal.
    #[default]
    Default,
    /// The stages of one kind are raised or lowered from start to end. Source: Roysden, section 4,
    /// "Fixed scheduling", where "nice down" raises, as in the kernel.
    Fixed {
        /// The kind of stage.
        kind: StageKind,
        /// Their priority. With [`StagePriority::Neutral`] the rule equals
        /// [`PriorityRule::Default`] and is printed as that.
        priority: StagePriority,
    },
    /// A stage whose output queue is backed up lowers itself, once and permanently.
    DynamicUp,
    /// A stage whose output queue is backed up lowers itself until it finds it empty.
    DynamicUpDown,
    /// A stage with several waiting buffers is raised until none waits.
    InputQueue,
    /// The stages that use what limits the program are raised, as found while it runs.
    LimitingResource,
}

impl PriorityRule {
    /// All rules.
    pub const ALL: [PriorityRule; 11] = [
        PriorityRule::Default,
        PriorityRule::nice_down(StageKind::Io),
        PriorityRule::nice_up(StageKind::Io),
        PriorityRule::nice_down(StageKind::Compute),
        PriorityRule::nice_up(StageKind::Compute),
        PriorityRule::nice_down(StageKind::Communicate),
        PriorityRule::nice_up(StageKind::Communicate),
        PriorityRule::DynamicUp,
        PriorityRule::DynamicUpDown,
        PriorityRule::InputQueue,
        PriorityRule::LimitingResource,
    ];

    /// Raises the stages of this kind: their nice values go down.
    pub const fn nice_down(kind: StageKind) -> PriorityRule {
        PriorityRule::Fixed { kind, priority: StagePriority::Raised }
    }

    /// Lowers the stages of this kind: their nice values go up.
    pub const fn nice_up(kind: StageKind) -> PriorityRule {
        PriorityRule::Fixed { kind, priority: StagePriority::Lowered }
    }

    /// The name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            PriorityRule::Default | PriorityRule::Fixed { priority: StagePriority::Neutral, .. } => "default",
            PriorityRule::Fixed { kind, priority: StagePriority::Raised } => match kind {
                StageKind::Io => "nice-down-io",
                StageKind::Compute => "nice-down-compute",
                StageKind::Communicate => "nice-down-communicate",
            },
            PriorityRule::Fixed { kind, priority: StagePriority::Lowered } => match kind {
                StageKind::Io => "nice-up-io",
                StageKind::Compute => "nice-up-compute",
                StageKind::Communicate => "nice-up-communicate",
            },
            PriorityRule::DynamicUp => "dynamic-up",
            PriorityRule::DynamicUpDown => "dynamic-up-down",
            PriorityRule::InputQueue => "input-queue",
            PriorityRule::LimitingResource => "limiting-resource",
        }
    }

    /// The rule as a stage of this kind applies it.
    pub fn stage(self, kind: StageKind) -> StagePolicy {
        let priority = match self {
            PriorityRule::Fixed { kind: which, priority } if which == kind => priority,
            _ => StagePriority::Neutral,
        };
        StagePolicy { priority, rule: self.queue_rule() }
    }

    /// The controller of all stages together, if the rule has one.
    pub fn controller(self) -> Option<PriorityController> {
        (self == PriorityRule::LimitingResource).then(PriorityController::new)
    }

    /// Whether [`StagePolicy::accepted`] and [`StagePolicy::conveyed`] have any effect; if not, a
    /// world may skip the calls.
    pub const fn has_queue_rule(self) -> bool {
        !matches!(self.queue_rule(), QueueRule::Never)
    }

    const fn queue_rule(self) -> QueueRule {
        match self {
            PriorityRule::Default | PriorityRule::Fixed { .. } | PriorityRule::LimitingResource => QueueRule::Never,
            PriorityRule::DynamicUp => QueueRule::DynamicUp,
            PriorityRule::DynamicUpDown => QueueRule::DynamicUpDown,
            PriorityRule::InputQueue => QueueRule::InputQueue,
        }
    }
}

named!(PriorityRule, |text| text.trim(), {
    let rules = PriorityRule::ALL.map(PriorityRule::name).join(", ");
    format!("`{text}` is not a priority rule: the rules are {rules}")
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_parse_back_as_printed_and_an_unknown_one_is_answered_with_all_rules() {
        for rule in PriorityRule::ALL {
            assert_eq!(rule.to_string().parse(), Ok(rule));
            assert_eq!(format!(" {rule} ").parse(), Ok(rule));
        }
        let why = "nice-up".parse::<PriorityRule>().unwrap_err().to_string();
        assert!(why.starts_with("`nice-up` is not a priority rule: the rules are default, nice-down-io, "), "{why}");
        assert!(why.ends_with(", input-queue, limiting-resource"), "{why}");
    }

    #[test]
    fn fixed_rules_concern_one_kind_and_never_change() {
        for rule in PriorityRule::ALL {
            let PriorityRule::Fixed { kind, priority } = rule else { continue };
            for other in StageKind::ALL {
                let mut stage = rule.stage(other);
                let expected = if other == kind { priority } else { StagePriority::Neutral };
                assert_eq!(stage.begin(), expected, "{rule} {other}");
                let changes = [stage.accepted(9), stage.conveyed(9), stage.accepted(0), stage.conveyed(0)];
                assert_eq!(changes, [None; 4]);
            }
        }
    }

    #[test]
    fn a_neutral_fixed_rule_equals_the_default() {
        let neutral = PriorityRule::Fixed { kind: StageKind::Io, priority: StagePriority::Neutral };
        assert_eq!(neutral.to_string(), "default");
        assert_eq!(neutral.stage(StageKind::Io), PriorityRule::Default.stage(StageKind::Io));
    }

    #[test]
    fn one_rule_has_a_controller() {
        let with: Vec<PriorityRule> =
            PriorityRule::ALL.into_iter().filter(|rule| rule.controller().is_some()).collect();
        assert_eq!(with, [PriorityRule::LimitingResource]);
    }
}
