//! The arms: implementations of waiting.

use std::fmt;
use std::str::FromStr;

use policy::waiting::{ParseRuleError, WaitingRule};

use crate::cells::Work;

/// An implementation of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// The C library's barrier and mutex.
    Pthread,
    /// The standard library's.
    Standard,
    /// The barrier of the crate `hurdles`.
    Hurdles,
    /// The mutex of the crate `parking_lot`.
    ParkingLot,
    /// Rowlock's, with a waiting rule.
    Rule(WaitingRule),
    /// Rowlock's with `always-yield` and all threads on one CPU: the optimum if hogs can use
    /// another CPU.
    Stack,
    /// A program in another language, with an optional OpenMP wait policy.
    Peer(Peer, Option<OpenMp>),
}

/// A library with a barrier, used by a small program of this benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Libstdcxx,
    Libcxx,
    Libgomp,
    Libomp,
}

/// `OMP_WAIT_POLICY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMp {
    Passive,
    Active,
}

impl OpenMp {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            OpenMp::Passive => "passive",
            OpenMp::Active => "active",
        }
    }
}

/// The names of all arms except the rules.
const NAMED: [(&str, Arm); 13] = [
    ("pthread", Arm::Pthread),
    ("std", Arm::Standard),
    ("hurdles", Arm::Hurdles),
    ("parking_lot", Arm::ParkingLot),
    ("libstdc++", Arm::Peer(Peer::Libstdcxx, None)),
    ("libc++", Arm::Peer(Peer::Libcxx, None)),
    ("libgomp", Arm::Peer(Peer::Libgomp, None)),
    ("libgomp-passive", Arm::Peer(Peer::Libgomp, Some(OpenMp::Passive))),
    ("libgomp-active", Arm::Peer(Peer::Libgomp, Some(OpenMp::Active))),
    ("libomp", Arm::Peer(Peer::Libomp, None)),
    ("libomp-passive", Arm::Peer(Peer::Libomp, Some(OpenMp::Passive))),
    ("libomp-active", Arm::Peer(Peer::Libomp, Some(OpenMp::Active))),
    ("stack", Arm::Stack),
];

/// The prefix of a rule's name.
const RULE: &str = "rule:";

impl Arm {
    /// Whether it supports this work.
    pub(crate) fn can(self, work: Work) -> bool {
        match work {
            Work::Meet { .. } => self != Arm::ParkingLot,
            Work::Lock { .. } => matches!(self, Arm::Pthread | Arm::Standard | Arm::ParkingLot | Arm::Rule(_)),
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arm::Rule(rule) => write!(f, "{RULE}{rule}"),
            other => f.write_str(NAMED.iter().find(|(_, arm)| arm == other).map_or("", |(name, _)| name)),
        }
    }
}

/// Why a text is not an arm.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ParseArmError {
    #[error("`{0}` is not an arm: the arms are {names}, and rule:RULE, as in rule:2cs+", names = NAMED.map(|(name, _)| name).join(", "))]
    Unknown(String),
    #[error("`rule:{0}`: {1}")]
    Rule(String, #[source] ParseRuleError),
}

impl FromStr for Arm {
    type Err = ParseArmError;

    fn from_str(text: &str) -> Result<Arm, ParseArmError> {
        if let Some(rule) = text.trim().strip_prefix(RULE) {
            return rule.parse().map(Arm::Rule).map_err(|why| ParseArmError::Rule(rule.to_owned(), why));
        }
        let named = NAMED.iter().find(|(name, _)| *name == text.trim());
        named.map(|&(_, arm)| arm).ok_or_else(|| ParseArmError::Unknown(text.to_owned()))
    }
}

/// The default arms. Arms that are listed twice show the noise between equals.
pub(crate) fn usual(locks: bool) -> &'static str {
    if locks {
        "pthread,std,parking_lot,rule:adaptive,rule:always-block,rule:owner-running,rule:variable-competitive,\
         pthread,parking_lot,rule:adaptive"
    } else {
        "pthread,std,libstdc++,libc++,hurdles,libgomp,libgomp-passive,libgomp-active,libomp,libomp-passive,libomp-active,\
         rule:adaptive,rule:always-block,rule:2cs+,rule:44 us,rule:always-yield,stack,pthread,rule:adaptive"
    }
}

/// Parses a list of arms.
pub(crate) fn parse(list: &str) -> Result<Vec<Arm>, ParseArmError> {
    list.split(',').map(str::parse).collect()
}

/// A copy of an arm. If an arm is listed twice, each copy has its own runs and score.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Label {
    /// The arm as it was written.
    pub(crate) arm: String,
    /// From one.
    pub(crate) copy: u32,
}

impl Label {
    /// Its place in a table: first the arms of others, then rules by name, and copies at the end.
    pub(crate) fn rank(&self) -> (u32, usize, String) {
        let named = NAMED.iter().position(|(name, _)| *name == self.arm);
        (self.copy, named.unwrap_or(NAMED.len()), self.arm.clone())
    }

    /// Whether it is an arm of rowlock.
    pub(crate) fn is_ours(&self) -> bool {
        self.arm.starts_with(RULE) || self.arm == "stack"
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.arm)?;
        if self.copy > 1 { write!(f, " #{}", self.copy) } else { Ok(()) }
    }
}

/// The labels of a list of arms.
pub(crate) fn labels(arms: &[Arm]) -> Vec<Label> {
    let copy = |n: usize| arms[..=n].iter().filter(|arm| **arm == arms[n]).count() as u32;
    (0..arms.len()).map(|n| Label { arm: arms[n].to_string(), copy: copy(n) }).collect()
}
