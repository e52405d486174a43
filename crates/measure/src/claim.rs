//! The outcome of a claim, for example of a paper or about the two worlds.

use serde::{Serialize, Serializer};

/// Whether a claim holds. The default text and JSON are `yes`, `no` and `undecided`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ClaimOutcome {
    /// The results agree with the claim.
    #[serde(rename = "yes")]
    Agrees,
    /// The results disagree with the claim.
    #[serde(rename = "no")]
    Disagrees,
    /// The results do not decide, or the claim was not judged.
    #[serde(rename = "undecided")]
    Undecided,
}

impl ClaimOutcome {
    /// Whether the claim holds. `None` if it is undecided.
    pub fn holds(self) -> Option<bool> {
        self.choose(Some(true), Some(false), None)
    }

    /// The outcome in a word.
    pub fn word(self) -> &'static str {
        self.choose("yes", "no", "undecided")
    }

    /// The value for this outcome.
    pub fn choose<T>(self, agrees: T, disagrees: T, undecided: T) -> T {
        match self {
            ClaimOutcome::Agrees => agrees,
            ClaimOutcome::Disagrees => disagrees,
            ClaimOutcome::Undecided => undecided,
        }
    }

    /// Serializes the outcome as `true`, `false` or `null`, for `serialize_with`.
    pub fn serialize_holds<S: Serializer>(outcome: &ClaimOutcome, to: S) -> Result<S::Ok, S::Error> {
        outcome.holds().serialize(to)
    }
}

impl From<Option<bool>> for ClaimOutcome {
    fn from(holds: Option<bool>) -> ClaimOutcome {
        match holds {
            Some(true) => ClaimOutcome::Agrees,
            Some(false) => ClaimOutcome::Disagrees,
            None => ClaimOutcome::Undecided,
        }
    }
}
