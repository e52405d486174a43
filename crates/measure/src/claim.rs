//! The outcome of a claim, for example of a paper or about the two worlds.

use serde::Serialize;

/// Whether a claim holds. JSON has `yes`, `no` and `undecided`.
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
    /// The value for this outcome.
    pub fn choose<T>(self, agrees: T, disagrees: T, undecided: T) -> T {
        match self {
            ClaimOutcome::Agrees => agrees,
            ClaimOutcome::Disagrees => disagrees,
            ClaimOutcome::Undecided => undecided,
        }
    }
}
