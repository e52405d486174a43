//! Orders for child processes, and their results. Each run is a process, so that it inherits
//! neither threads nor the heap nor the CPU of another run.

use std::process::ExitCode;

use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::Waiting;
use serde::{Deserialize, Serialize};

use crate::arms::Arm;
use crate::{locks, meetings};

/// The first argument of a child of this program. The second is the [`Order`].
pub(crate) const HIDDEN: &str = "carry-out";

/// The waiting of rowlock's objects by this rule, with the costs of the machine if given.
pub(crate) fn waiting(rule: WaitingRule, costs: Option<Costs>) -> Waiting {
    let waiting = Waiting::by(rule);
    costs.map_or(waiting, |costs| waiting.with_costs(costs))
}

/// The task of a child.
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

/// An order for a team at a barrier.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Meetings {
    pub(crate) threads: u32,
    /// The mean work before each wait.
    pub(crate) iterations: f64,
    pub(crate) seconds: f64,
    /// `None` if the processes measure the costs of the machine themselves, as programs do.
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

/// Carries out an order, prints the result as one line, and ends.
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
