//! The ranks of a message job: the place of each in the pattern, and its mailbox.
//!
//! * **Ring.** The first rank computes, sleeps, sends to the next one and receives from the last
//!   one. Every other rank receives from the one before it, computes, sleeps and sends to the next
//!   one.
//! * **One-to-all.** The first rank computes, sleeps, sends to all others in the order of their
//!   numbers, and receives from all of them. The others receive and send an answer at once.
//! * **Exchange.** Every rank computes, sleeps, sends to its neighbours around the ring, and
//!   receives from them. Two ranks have one neighbour each.
//!
//! A rank that begins a round computes for a step of the machine if no time is given, so that no
//! number of rounds fits into a moment. A round is over when every rank is through with it. In a
//! ring and in one-to-all, that is when the first rank has received.
//!
//! Messages of a job have one length and no content. A mailbox counts those of each sender that
//! have arrived and have not been received.

use policy::Span;
use scenario::Machine;
use scenario::draw::{Law, Stream};
use scenario::message::{Message, Pattern};

/// A step of a rank in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Compute,
    Sleep,
    Send,
    Receive,
}

/// The steps of a rank that begins a round.
const BEGIN: &[Step] = &[Step::Compute, Step::Sleep, Step::Send, Step::Receive];
/// Those of a rank that passes a message on.
const PASS_ON: &[Step] = &[Step::Receive, Step::Compute, Step::Sleep, Step::Send];
/// Those of a rank that answers.
const ANSWER: &[Step] = &[Step::Receive, Step::Send];

/// The next action of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankAction {
    Compute(Span),
    Sleep(Span),
    /// It sends a message to each of its [receivers](Messages::receivers).
    Send,
    /// It needs a message of each of its senders.
    Receive,
    /// It is through with a round. With the last one that was asked for, it is `done`.
    EndRound {
        done: bool,
    },
}

#[derive(Clone, Debug)]
struct Rank {
    steps: &'static [Step],
    /// The number of its next step.
    at: usize,
    /// How long it still computes before its first round.
    start: Span,
    rounds: u64,
    stream: Stream,
    /// The ranks to which it sends, in this order.
    receivers: Vec<u32>,
    /// The ranks from which it receives, in ascending order, and how many messages of each are in
    /// its mailbox.
    mailbox: Vec<(u32, u64)>,
    /// The number of senders of which its mailbox has no message.
    missing: usize,
}

/// A job's ranks; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    compute: Option<Law>,
    sleep: Option<Law>,
    step: Span,
    /// The number of rounds that was asked for.
    rounds: u64,
    /// The time that a message takes on a link.
    pub(crate) transmission: Span,
    ranks: Vec<Rank>,
    /// How many rounds are over.
    pub(crate) rounds_done: u64,
    /// How many ranks are not through with the next round.
    behind: usize,
}

impl Messages {
    /// The ranks of the job called `name`. Each computes for the time `start` before its first
    /// round. Times are rounded down to the step.
    pub(crate) fn new(job: &Message, machine: &Machine, name: &str, seed: u64, start: Span) -> Messages {
        let ranks = job.ranks();
        let rank = |number: u32| {
            let (steps, receivers, senders) = role(job.pattern, number, ranks);
            Rank {
                steps,
                at: 0,
                start: start.floor_to(machine.step),
                rounds: 0,
                stream: Stream::named(seed, name, number),
                receivers,
                missing: senders.len(),
                mailbox: senders.into_iter().map(|sender| (sender, 0)).collect(),
            }
        };
        Messages {
            compute: job.compute.as_ref().map(scenario::Distribution::law),
            sleep: job.sleep.as_ref().map(scenario::Distribution::law),
            step: machine.step,
            rounds: job.rounds,
            transmission: machine.network.bandwidth.time_of(job.bytes).floor_to(machine.step),
            ranks: (0..ranks).map(rank).collect(),
            rounds_done: 0,
            behind: ranks as usize,
        }
    }

    /// The next action of a rank that has completed its last one.
    pub(crate) fn next(&mut self, number: usize) -> RankAction {
        let rank = &mut self.ranks[number];
        if !rank.start.is_zero() {
            return RankAction::Compute(std::mem::take(&mut rank.start));
        }
        while let Some(step) = rank.steps.get(rank.at) {
            rank.at += 1;
            let law = match step {
                Step::Compute => &self.compute,
                Step::Sleep => &self.sleep,
                Step::Send => return RankAction::Send,
                Step::Receive => return RankAction::Receive,
            };
            match (step, law) {
                (Step::Sleep, Some(law)) => return RankAction::Sleep(law.draw(&mut rank.stream, self.step)),
                (_, Some(law)) => return RankAction::Compute(law.draw(&mut rank.stream, self.step)),
                (Step::Compute, None) if rank.at == 1 => return RankAction::Compute(self.step),
                (_, None) => {}
            }
        }
        self.end_round(number)
    }

    fn end_round(&mut self, number: usize) -> RankAction {
        let rank = &mut self.ranks[number];
        rank.at = 0;
        rank.rounds += 1;
        let done = rank.rounds == self.rounds;
        self.behind -= usize::from(rank.rounds == self.rounds_done + 1);
        if self.behind == 0 {
            self.rounds_done += 1;
            self.behind = self.ranks.iter().filter(|rank| rank.rounds == self.rounds_done).count();
        }
        RankAction::EndRound { done }
    }

    /// The ranks to which a rank sends, in this order.
    pub(crate) fn receivers(&self, number: usize) -> &[u32] {
        &self.ranks[number].receivers
    }

    /// The ranks from which a rank receives, in ascending order.
    pub(crate) fn senders(&self, number: usize) -> impl Iterator<Item = u32> {
        self.ranks[number].mailbox.iter().map(|(sender, _)| *sender)
    }

    /// The ranks of which a rank has no message, in ascending order.
    pub(crate) fn missing(&self, number: usize) -> impl Iterator<Item = u32> {
        self.ranks[number].mailbox.iter().filter(|(_, messages)| *messages == 0).map(|(sender, _)| *sender)
    }

    /// A message of the rank `from` arrives in the mailbox of the rank `to`. Returns whether it is
    /// the one that was missing there.
    pub(crate) fn arrive(&mut self, from: usize, to: usize) -> bool {
        let rank = &mut self.ranks[to];
        let Ok(place) = rank.mailbox.binary_search_by_key(&(from as u32), |(sender, _)| *sender) else { return false };
        let messages = &mut rank.mailbox[place].1;
        *messages += 1;
        rank.missing -= usize::from(*messages == 1);
        *messages == 1 && rank.missing == 0
    }

    /// Whether a rank has a message of each of its senders.
    pub(crate) fn can_receive(&self, number: usize) -> bool {
        self.ranks[number].missing == 0
    }

    /// A rank takes a message of each of its senders from its mailbox, if all are there.
    pub(crate) fn receive(&mut self, number: usize) -> bool {
        let rank = &mut self.ranks[number];
        if rank.missing > 0 {
            return false;
        }
        for (_, messages) in &mut rank.mailbox {
            *messages -= 1;
            rank.missing += usize::from(*messages == 0);
        }
        true
    }
}

/// The steps of a rank, its receivers, and its senders in ascending order.
fn role(pattern: Pattern, number: u32, ranks: u32) -> (&'static [Step], Vec<u32>, Vec<u32>) {
    let (before, after) = ((number + ranks - 1) % ranks, (number + 1) % ranks);
    match (pattern, number) {
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
    }
}
