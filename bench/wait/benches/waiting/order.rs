//! What one child process is told to do, and what it answers. A run is a process of its own, so that no arm inherits what
//! another has left behind: threads, heaps, or a place on a CPU.

use std::process::ExitCode;

use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::Waiting;
use serde::{Deserialize, Serialize};

use crate::arms::Arm;
use crate::{locks, meetings};

/// The first argument of a child of this program; the second is the [`Order`].
pub(crate) const HIDDEN: &str = "carry-out";

/// How an object of ours waits by this rule, on a machine with these costs if they are given.
pub(crate) fn waiting(rule: WaitingRule, costs: Option<Costs>) -> Waiting {
    let waiting = Waiting::by(rule);
    costs.map_or(waiting, |costs| waiting.with_costs(costs))
}

/// What a child does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    Meet {
        arm: String,
        meetings: Meetings,
    },
    Lock {
        arm: String,
        turns: locks::Turns,
    },
    /// Computes until it is killed.
    Hog,
}

/// A team that meets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Meetings {
    pub(crate) threads: u32,
    /// The work before each meeting, on average.
    pub(crate) iterations: f64,
    pub(crate) seconds: f64,
    /// Nothing where our rules measure for themselves what the machine costs, as they do in programs.
    pub(crate) costs: Option<Costs>,
}

/// Why a child could not carry out its order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Refused(&'static str),
    #[error(transparent)]
    Arm(#[from] crate::arms::ParseArmError),
    #[error(transparent)]
    Cpus(#[from] sys::cpus::AffinityError),
    #[error("the order cannot be read or the outcome written: {0}")]
    Json(#[from] serde_json::Error),
}

/// Carries out an order, prints the outcome as one line, and ends.
pub(crate) fn carry_out(order: &str) -> ExitCode {
    let run = || -> Result<String, Error> {
        let outcome = match serde_json::from_str(order)? {
            Order::Meet { arm, meetings } => meetings::run(arm.parse::<Arm>()?, &meetings)?,
            Order::Lock { arm, turns } => locks::run(arm.parse::<Arm>()?, &turns)?,
            Order::Hog => loop {
                std::hint::black_box(crate::work::chain(1_000_000, 1));
            },
        };
        Ok(serde_json::to_string(&outcome)?)
    };
    match run() {
        Ok(outcome) => {
            println!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
