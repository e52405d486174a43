//! What became of a wish.

use std::fmt;

use serde::{Deserialize, Serialize};
use sys::scheduling::SchedulingError;

/// A wish for how a thread is scheduled, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The wish as it is written, such as `nice=-5`.
    pub wish: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
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

impl Grant {
    /// What became of `key=wished`, given what was read back.
    pub(super) fn new(key: &str, wished: String, got: Result<String, SchedulingError>) -> Grant {
        let outcome = match got {
            Ok(got) if got == wished => Outcome::Granted,
            Ok(got) => Outcome::GrantedOtherwise(got),
            Err(why) => Outcome::Refused { why: why.cause(), needs: why.requirement().unwrap_or_default() },
        };
        Grant { wish: format!("{key}={wished}"), outcome }
    }

    /// Whether the kernel did not take it.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused { .. })
    }
}

/// Notes a grant among others, unless it is there already: what a rule is refused every round is worth one line.
pub fn keep(grants: &mut Vec<Grant>, grant: Grant) {
    if !grants.contains(&grant) {
        grants.push(grant);
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Granted => write!(f, "{}: granted", self.wish),
            Outcome::GrantedOtherwise(got) => write!(f, "{}: granted, but it is {got}", self.wish),
            Outcome::Refused { why, needs } if needs.is_empty() => write!(f, "{}: {why}", self.wish),
            Outcome::Refused { why, needs } => write!(f, "{}: {why}; it takes {needs}", self.wish),
        }
    }
}
