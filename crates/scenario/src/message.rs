//! A job of ranks that exchange messages.
//!
//! Both worlds read the [`Role`] of a rank here, so their ranks do the same in the same order, and
//! draw the same times.

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

/// A step of a rank in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It computes, if the job computes.
    Compute,
    /// It sleeps, if the job sleeps.
    Sleep,
    /// It sends a message to each of its receivers.
    Send,
    /// It receives a message of each of its senders.
    Receive,
}

/// The part of a rank in each round of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its steps.
    pub steps: &'static [Step],
    /// The ranks to which it sends, in this order.
    pub receivers: Vec<u32>,
    /// The ranks from which it receives, in ascending order.
    pub senders: Vec<u32>,
}

/// The steps of a rank that begins a round.
const BEGIN: &[Step] = &[Step::Compute, Step::Sleep, Step::Send, Step::Receive];
/// Those of a rank that passes a message on.
const PASS_ON: &[Step] = &[Step::Receive, Step::Compute, Step::Sleep, Step::Send];
/// Those of a rank that answers.
const ANSWER: &[Step] = &[Step::Receive, Step::Send];

impl Pattern {
    /// The role of a rank among so many.
    ///
    /// * **Ring.** The first rank sends to the next one and receives from the last one. Every other
    ///   rank receives from the one before it and sends to the next one.
    /// * **One-to-all.** The first rank sends to all others in the order of their numbers, and
    ///   receives from all of them. The others receive and send an answer at once.
    /// * **Exchange.** Every rank sends to its neighbours around the ring, and receives from them.
    ///   Two ranks have one neighbour each.
    pub fn role(self, rank: u32, ranks: u32) -> Role {
        let (before, after) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        let (steps, receivers, senders) = match (self, rank) {
            (Pattern::Ring, 0) => (BEGIN, vec![after], vec![before]),
            (Pattern::Ring, _) => (PASS_ON, vec![after], vec![before]),
            (Pattern::OneToAll, 0) => (BEGIN, (1..ranks).collect(), (1..ranks).collect()),
            (Pattern::OneToAll, _) => (ANSWER, vec![0], vec![0]),
            (Pattern::Exchange, _) => {
                let mut neighbours = vec![before, after];
                neighbours.sort_unstable();
                neighbours.dedup();
                (BEGIN, neighbours.clone(), neighbours)
            }
        };
        Role { steps, receivers, senders }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_a_rank_sends_is_one_that_its_receiver_expects() {
        for pattern in Pattern::ALL {
            for ranks in 2..9 {
                let roles: Vec<Role> = (0..ranks).map(|rank| pattern.role(rank, ranks)).collect();
                let pairs = |of: fn(&Role) -> &[u32]| {
                    let all =
                        roles.iter().zip(0..).flat_map(move |(role, rank)| of(role).iter().map(move |&to| (rank, to)));
                    all.collect::<Vec<_>>()
                };
                let (mut sent, received) = (pairs(|role| &role.receivers), pairs(|role| &role.senders));
                assert!(received.is_sorted() && sent.iter().all(|(from, to)| from != to), "{pattern:?}, {roles:?}");
                sent.iter_mut().for_each(|(from, to)| std::mem::swap(from, to));
                sent.sort_unstable();
                assert_eq!(sent, received, "{pattern:?} of {ranks}");
            }
        }
    }
}
