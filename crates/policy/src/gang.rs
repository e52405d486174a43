//! The scheduling of jobs that are not active.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes",
//! sections 2, 3 and 5.

use std::fmt;
use std::str::FromStr;

use crate::ParseError;
use crate::units::Span;
use crate::waiting::WaitingRule;

/// How jobs share the machine in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Gang {
    /// The local schedulers decide alone.
    None,
    /// The active job has its ordinary priority, all others a lower one.
    Moderate,
    /// All jobs but the active one are stopped.
    Strict,
    /// The local schedulers decide alone, and every wait is bounded: it spins, then blocks.
    Implicit,
    /// The local schedulers decide, and prefer a thread whose message arrives.
    Dynamic,
    /// Jobs that wait by spinning take turns, by being stopped. All others run at any time.
    #[default]
    Adaptive,
    /// One job at a time has the whole machine, until it ends.
    CellOs,
    /// As `moderate`, but all jobs are laid out from the first cell, whose local scheduler decides
    /// which of them is active.
    Original,
}

crate::parse::named!(
    Gang {
        None = "none", Moderate = "moderate", Strict = "strict", Implicit = "implicit", Dynamic = "dynamic",
        Adaptive = "adaptive", CellOs = "cellos", Original = "original",
    }
    |text| text, format!("`{text}` is not a way to schedule gangs")
);

/// How a thread of a job that is not active is lowered. Written as `nice 15` or `weight 2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Lowering {
    /// Its nice value is larger by this.
    Nice(u8),
    /// The group of its job has this weight, where 1024 is that of an active job.
    Weight(u16),
}

/// The scheduling of a job on a cell at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Its threads run with their ordinary priority.
    Run,
    /// They run with a lower priority.
    Lower,
    /// They do not run.
    Stop,
}

/// The behaviour of a job while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Need {
    /// It has not run for long enough to tell.
    #[default]
    Unknown,
    /// It waits by spinning.
    Spins,
    /// It blocks.
    Blocks,
    /// It hardly waits.
    Computes,
}

/// The counters of a job over an interval, summed over its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalCounters {
    /// How long they had a CPU.
    pub ran: Span,
    /// The part of it in which they waited by spinning.
    pub spun: Span,
    /// How often they blocked.
    pub blocks: u64,
}

impl Gang {
    /// Whether jobs take turns by a table of slices.
    pub const fn has_table(self) -> bool {
        matches!(self, Gang::Moderate | Gang::Strict | Gang::Adaptive)
    }

    /// Whether a job with this behaviour is entered in the table.
    pub const fn takes_turns(self, need: Need) -> bool {
        match self {
            Gang::Moderate | Gang::Strict => true,
            Gang::Adaptive => matches!(need, Need::Spins | Need::Unknown),
            Gang::None | Gang::Implicit | Gang::Dynamic | Gang::CellOs | Gang::Original => false,
        }
    }

    /// The scheduling of a job that takes turns.
    pub const fn action(self, is_active: bool) -> Action {
        match self {
            Gang::Moderate | Gang::Original if !is_active => Action::Lower,
            Gang::Strict | Gang::Adaptive if !is_active => Action::Stop,
            _ => Action::Run,
        }
    }

    /// The waiting rule of jobs that are to wait by `rule`.
    pub fn waiting(self, rule: WaitingRule) -> WaitingRule {
        rule
    }
}

/// Classifies a job by its counters of the last interval and its class before.
pub fn classify(before: Need, _counters: &IntervalCounters) -> Need {
    before
}

impl Default for Lowering {
    fn default() -> Lowering {
        Lowering::Nice(15)
    }
}

impl fmt::Display for Lowering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lowering::Nice(steps) => f.pad(&format!("nice {steps}")),
            Lowering::Weight(weight) => f.pad(&format!("weight {weight}")),
        }
    }
}

impl FromStr for Lowering {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Lowering, ParseError> {
        let parse = || {
            let (what, number) = text.trim().split_once(' ')?;
            let number: u16 = number.trim().parse().ok()?;
            match what {
                "nice" if (1..=39).contains(&number) => Some(Lowering::Nice(number as u8)),
                "weight" if (2..=1023).contains(&number) => Some(Lowering::Weight(number)),
                _ => None,
            }
        };
        parse().ok_or_else(|| {
            ParseError(format!("`{text}` is neither `nice 1` to `nice 39` nor `weight 2` to `weight 1023`"))
        })
    }
}
