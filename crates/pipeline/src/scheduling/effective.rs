//! What became of a wish.

use std::fmt;

use serde::{Deserialize, Serialize};
use sys::scheduling::SchedulingError;

/// A wish for how a thread is scheduled, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EffectiveAttribute {
    /// The wish as it is written, such as `nice=-5`.
    #[serde(rename = "wish")]
    pub requested: String,
    /// What became of it.
    pub outcome: SchedulingOutcome,
}

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingOutcome {
    /// The kernel took it, and it was read back like that.
    Granted,
    /// The kernel took it, and this was read back.
    GrantedOtherwise(String),
    /// The kernel did not take it; the thread is as before.
    Refused {
        /// What it said.
        why: String,
        /// What right is missing, or what kernel; empty where nobody can tell.
        needs: String,
    },
}

impl EffectiveAttribute {
    /// What became of `key=requested`, given what was read back.
    pub(super) fn new(key: &str, requested: String, got: Result<String, SchedulingError>) -> EffectiveAttribute {
        let outcome = match got {
            Ok(got) if got == requested => SchedulingOutcome::Granted,
            Ok(got) => SchedulingOutcome::GrantedOtherwise(got),
            Err(why) => SchedulingOutcome::Refused { why: why.cause(), needs: why.requirement().unwrap_or_default() },
        };
        EffectiveAttribute { requested: format!("{key}={requested}"), outcome }
    }

    /// Whether the kernel did not take it.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, SchedulingOutcome::Refused { .. })
    }
}

/// Notes a grant among others, unless it is there already: what a rule is refused every round is worth one line.
pub fn add_if_new(effective: &mut Vec<EffectiveAttribute>, attribute: EffectiveAttribute) {
    if !effective.contains(&attribute) {
        effective.push(attribute);
    }
}

impl fmt::Display for EffectiveAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            SchedulingOutcome::Granted => write!(f, "{}: granted", self.requested),
            SchedulingOutcome::GrantedOtherwise(got) => write!(f, "{}: granted, but it is {got}", self.requested),
            SchedulingOutcome::Refused { why, needs } if needs.is_empty() => write!(f, "{}: {why}", self.requested),
            SchedulingOutcome::Refused { why, needs } => write!(f, "{}: {why}; it takes {needs}", self.requested),
        }
    }
}
