//! Rules of priority, as they are written.

use std::fmt;
use std::str::FromStr;

use super::{Asked, DynamicUp, DynamicUpDown, Favour, InputQueue, Kind, Overseer, Stage};

/// A rule of priority as it is written.
///
/// [`crate::table::PRIORITY`] lists the ways to write one. What is printed reads back as the same rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    /// All stages are equal to the scheduler.
    #[default]
    Default,
    /// The stages of one kind are favoured or lowered from the beginning to the end. Source: Roysden, section 4, "Fixed
    /// scheduling", where "nice down" is what raises, as it is for the kernel.
    Fixed {
        /// Which stages.
        kind: Kind,
        /// What they are. With [`Favour::Neutral`] it is [`Rule::Default`] and printed as that.
        favour: Favour,
    },
    /// A stage that finds its output backed up lowers itself, once and for ever.
    DynamicUp,
    /// A stage that finds its output backed up lowers itself until it finds it empty.
    DynamicUpDown,
    /// A stage for which several buffers wait is raised until none does.
    InputQueue,
    /// The stages that use what limits the program are raised, as found while it runs.
    LimitingResource,
}

impl Rule {
    /// All that there are.
    pub const ALL: [Rule; 11] = [
        Rule::Default,
        Rule::nice_down(Kind::Io),
        Rule::nice_up(Kind::Io),
        Rule::nice_down(Kind::Compute),
        Rule::nice_up(Kind::Compute),
        Rule::nice_down(Kind::Communicate),
        Rule::nice_up(Kind::Communicate),
        Rule::DynamicUp,
        Rule::DynamicUpDown,
        Rule::InputQueue,
        Rule::LimitingResource,
    ];

    /// The stages of this kind are favoured: their nice values go down.
    pub const fn nice_down(kind: Kind) -> Rule {
        Rule::Fixed { kind, favour: Favour::Raised }
    }

    /// The stages of this kind come after others: their nice values go up.
    pub const fn nice_up(kind: Kind) -> Rule {
        Rule::Fixed { kind, favour: Favour::Lowered }
    }

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Default | Rule::Fixed { favour: Favour::Neutral, .. } => "default",
            Rule::Fixed { kind: Kind::Io, favour: Favour::Raised } => "nice-down-io",
            Rule::Fixed { kind: Kind::Io, favour: Favour::Lowered } => "nice-up-io",
            Rule::Fixed { kind: Kind::Compute, favour: Favour::Raised } => "nice-down-compute",
            Rule::Fixed { kind: Kind::Compute, favour: Favour::Lowered } => "nice-up-compute",
            Rule::Fixed { kind: Kind::Communicate, favour: Favour::Raised } => "nice-down-communicate",
            Rule::Fixed { kind: Kind::Communicate, favour: Favour::Lowered } => "nice-up-communicate",
            Rule::DynamicUp => "dynamic-up",
            Rule::DynamicUpDown => "dynamic-up-down",
            Rule::InputQueue => "input-queue",
            Rule::LimitingResource => "limiting-resource",
        }
    }

    /// The side of a stage of this kind.
    pub fn stage(self, kind: Kind) -> Stage {
        let (favour, rule) = match self {
            Rule::Fixed { kind: which, favour } if which == kind => (favour, Asked::Never),
            Rule::Default | Rule::Fixed { .. } | Rule::LimitingResource => (Favour::Neutral, Asked::Never),
            Rule::DynamicUp => (Favour::Neutral, Asked::DynamicUp(DynamicUp)),
            Rule::DynamicUpDown => (Favour::Neutral, Asked::DynamicUpDown(DynamicUpDown)),
            Rule::InputQueue => (Favour::Neutral, Asked::InputQueue(InputQueue)),
        };
        Stage { favour, rule }
    }

    /// Who looks at all stages together, where the rule has somebody who does.
    pub fn overseer(self) -> Option<Overseer> {
        (self == Rule::LimitingResource).then(Overseer::new)
    }

    /// Whether [`Stage::accepted`] and [`Stage::conveyed`] are of any use; a world may spare itself the calls where not.
    pub const fn watches_queues(self) -> bool {
        match self {
            Rule::Default | Rule::Fixed { .. } | Rule::LimitingResource => false,
            Rule::DynamicUp | Rule::DynamicUpDown | Rule::InputQueue => true,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Rule, UnknownRule> {
        let named = crate::table::PRIORITY.iter().filter_map(|entry| entry.rule);
        named.into_iter().find(|rule| rule.name() == text.trim()).ok_or_else(|| UnknownRule(text.to_owned()))
    }
}

/// A text that is no rule of priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRule(String);

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a rule of priority: the rules are ", self.0)?;
        let (last, others) = Rule::ALL.split_last().map_or((Rule::Default, &[][..]), |(last, others)| (*last, others));
        others.iter().try_for_each(|rule| write!(f, "{rule}, "))?;
        write!(f, "{last}")
    }
}

impl std::error::Error for UnknownRule {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_back_as_they_are_printed() {
        for rule in Rule::ALL {
            assert_eq!(rule.to_string().parse(), Ok(rule));
            assert_eq!(format!(" {rule} ").parse(), Ok(rule));
        }
    }

    #[test]
    fn what_is_no_rule_is_told_the_rules() {
        let why = "nice-up".parse::<Rule>().unwrap_err().to_string();
        assert!(why.starts_with("`nice-up` is not a rule of priority: the rules are default, nice-down-io, "), "{why}");
        assert!(why.ends_with(", input-queue, limiting-resource"), "{why}");
    }

    #[test]
    fn fixed_rules_concern_one_kind_for_ever() {
        for rule in Rule::ALL {
            let Rule::Fixed { kind, favour } = rule else { continue };
            for other in Kind::ALL {
                let mut stage = rule.stage(other);
                assert_eq!(stage.begin(), if other == kind { favour } else { Favour::Neutral }, "{rule} {other}");
                assert_eq!(
                    (stage.accepted(9), stage.conveyed(9), stage.accepted(0), stage.conveyed(0)),
                    (None, None, None, None)
                );
            }
        }
    }

    #[test]
    fn a_rule_that_changes_nothing_is_the_default_by_another_name() {
        let neutral = Rule::Fixed { kind: Kind::Io, favour: Favour::Neutral };
        assert_eq!(neutral.to_string(), "default");
        assert_eq!(neutral.stage(Kind::Io), Rule::Default.stage(Kind::Io));
    }

    #[test]
    fn one_rule_has_an_overseer() {
        let with: Vec<Rule> = Rule::ALL.into_iter().filter(|rule| rule.overseer().is_some()).collect();
        assert_eq!(with, [Rule::LimitingResource]);
    }
}
