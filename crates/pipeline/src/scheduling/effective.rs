//! The effective scheduling: results of requests.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use sys::scheduling::SchedulingError;

/// A request for one attribute of a thread's scheduling, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EffectiveAttribute {
    /// The request in its text format, such as `nice=-5`.
    #[serde(rename = "wish")]
    pub requested: String,
    /// The result.
    pub outcome: SchedulingOutcome,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingOutcome {
    /// The kernel accepted it, and the value read back is the requested one.
    Granted,
    /// The kernel accepted it, and this value was read back.
    GrantedOtherwise(String),
    /// The kernel refused it. The thread has not changed.
    Refused {
        /// The kernel's error.
        why: String,
        /// The missing permission or kernel feature. Empty if unknown.
        needs: String,
    },
}

impl EffectiveAttribute {
    /// The result of `key=requested`, given the value that was read back.
    pub(super) fn new(key: &str, requested: impl Display, got: Result<impl Display, SchedulingError>) -> Self {
        let requested = requested.to_string();
        let outcome = match got.map(|got| got.to_string()) {
            Ok(got) if got == requested => SchedulingOutcome::Granted,
            Ok(got) => SchedulingOutcome::GrantedOtherwise(got),
            Err(SchedulingError { cause: why, requirement }) => {
                SchedulingOutcome::Refused { why, needs: requirement.unwrap_or_default() }
            }
        };
        EffectiveAttribute { requested: format!("{key}={requested}"), outcome }
    }

    /// Whether the kernel refused it.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, SchedulingOutcome::Refused { .. })
    }
}

/// Adds a result that is not in the list. A rule may be refused in every round, which is worth one
/// line only.
pub fn add_if_new(effective: &mut Vec<EffectiveAttribute>, attribute: EffectiveAttribute) {
    if !effective.contains(&attribute) {
        effective.push(attribute);
    }
}

impl Display for EffectiveAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.requested)?;
        match &self.outcome {
            SchedulingOutcome::Granted => f.write_str("granted"),
            SchedulingOutcome::GrantedOtherwise(got) => write!(f, "granted, but it is {got}"),
            SchedulingOutcome::Refused { why, needs } if needs.is_empty() => f.write_str(why),
            SchedulingOutcome::Refused { why, needs } => write!(f, "{why}; it takes {needs}"),
        }
    }
}
