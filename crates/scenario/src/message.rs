//! A job of ranks that exchange messages.

use policy::layout::Request;
use policy::waiting::WaitingRule;
use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;

named_enum! {
    /// The order in which ranks send and receive in a round.
    pub enum Pattern {
        /// A message travels from each rank to the next, around all of them. Every rank computes
        /// before it sends.
        Ring = "ring",
        /// The first rank computes and sends to all others, which answer at once.
        OneToAll = "one-to-all",
        /// Every rank computes, then sends to both neighbours and receives from both.
        Exchange = "exchange",
    }
}

/// Ranks, one on each cell, that exchange messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The cells that it asks for. It has a rank for each of them, at least two.
    pub request: Request,
    /// Its messages in a round.
    pub pattern: Pattern,
    /// The length of a message, at least one.
    pub bytes: u64,
    /// The number of rounds, at least one.
    pub rounds: u64,
    /// The time that a rank computes before it sends. `None` for no time.
    pub compute: Option<Distribution>,
    /// The time that a rank sleeps after its computation, for example for I/O. `None` for no time,
    /// and neither does it sleep if one step of the machine or less is drawn.
    pub sleep: Option<Distribution>,
    /// How a rank waits for messages.
    pub waiting: WaitingRule,
    /// Its share of the turns, at least one.
    pub weight: u32,
}

impl Message {
    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        match self.request {
            Request::Rectangle(shape) => shape.cells(),
            Request::At(cells) => cells.shape.cells(),
            Request::Ranks(ranks) => ranks,
        }
    }
}
