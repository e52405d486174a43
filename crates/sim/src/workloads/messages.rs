//! The ranks of a message job: the place of each in the pattern, and its mailbox.
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
use scenario::message::{Message, Role, Step};

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
    /// Whether a rank has begun its first round.
    pub(crate) has_begun: bool,
}

impl Messages {
    /// The ranks of the job called `name`. Each computes for the time `start` before its first
    /// round. Times are rounded down to the step.
    pub(crate) fn new(job: &Message, machine: &Machine, name: &str, seed: u64, start: Span) -> Messages {
        let ranks = job.ranks();
        let rank = |number: u32| {
            let Role { steps, receivers, senders } = job.pattern.role(number, ranks);
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
            has_begun: false,
        }
    }

    /// The next action of a rank that has completed its last one.
    pub(crate) fn next(&mut self, number: usize) -> RankAction {
        let rank = &mut self.ranks[number];
        if !rank.start.is_zero() {
            return RankAction::Compute(std::mem::take(&mut rank.start));
        }
        self.has_begun = true;
        while let Some(step) = rank.steps.get(rank.at) {
            rank.at += 1;
            let law = match step {
                Step::Compute => &self.compute,
                Step::Sleep => &self.sleep,
                Step::Send => return RankAction::Send,
                Step::Receive => return RankAction::Receive,
            };
            match (step, law) {
                (Step::Sleep, Some(law)) => match law.draw(&mut rank.stream, self.step) {
                    // The shortest that is drawn stands for none.
                    span if span <= self.step => {}
                    span => return RankAction::Sleep(span),
                },
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

#[cfg(test)]
mod tests {
    use policy::layout::Request;
    use policy::waiting::WaitingRule;
    use proptest::prelude::*;
    use proptest::sample::select;
    use scenario::message::Pattern;

    use super::*;

    fn us(n: u64) -> Span {
        Span::from_micros(n)
    }

    fn job(pattern: Pattern, ranks: u32, rounds: u64) -> Message {
        Message {
            request: Request::Ranks(ranks),
            pattern,
            bytes: 100,
            rounds,
            compute: Some(us(3).into()),
            sleep: Some(us(2).into()),
            waiting: WaitingRule::AlwaysBlock,
            weight: 1,
        }
    }

    fn messages(job: &Message) -> Messages {
        Messages::new(job, &Machine::with_cpus(1), "job", 1, Span::ZERO)
    }

    /// Lets a rank act until it lacks a message or is through with a round. Its messages arrive at
    /// once. Returns what it did.
    fn act(messages: &mut Messages, number: usize) -> String {
        let mut text = String::new();
        loop {
            match messages.next(number) {
                RankAction::Compute(span) => text += &format!("computes {span}, "),
                RankAction::Sleep(span) => text += &format!("sleeps {span}, "),
                RankAction::Send => {
                    for to in messages.receivers(number).to_vec() {
                        text += &format!("sends to {to}, ");
                        messages.arrive(number, to as usize);
                    }
                }
                RankAction::Receive if messages.receive(number) => text += "receives, ",
                RankAction::Receive => return text + "waits",
                RankAction::EndRound { done } => return text + if done { "is done" } else { "ends a round" },
            }
        }
    }

    /// A rank that waited receives and continues.
    fn resume(messages: &mut Messages, number: usize) -> String {
        assert!(messages.receive(number));
        act(messages, number)
    }

    #[test]
    fn a_sleep_of_less_than_two_steps_is_left_out() {
        let does = |sleep| {
            let job = Message { sleep: Some(Span::from_nanos(sleep).into()), ..job(Pattern::Ring, 2, 1) };
            let machine = Machine { step: us(1), ..Machine::with_cpus(1) };
            act(&mut Messages::new(&job, &machine, "job", 1, Span::ZERO), 0)
        };
        assert_eq!(does(1_999), "computes 3 us, sends to 1, waits");
        assert_eq!(does(2_999), "computes 3 us, sleeps 2 us, sends to 1, waits");
    }

    #[test]
    fn a_message_goes_around_the_ring() {
        let mut ring = messages(&job(Pattern::Ring, 3, 1));
        assert_eq!(act(&mut ring, 1), "waits");
        assert_eq!(act(&mut ring, 0), "computes 3 us, sleeps 2 us, sends to 1, waits");
        assert_eq!(ring.missing(0).collect::<Vec<_>>(), [2]);
        assert_eq!(resume(&mut ring, 1), "computes 3 us, sleeps 2 us, sends to 2, is done");
        assert_eq!(act(&mut ring, 2), "receives, computes 3 us, sleeps 2 us, sends to 0, is done");
        assert_eq!((ring.rounds_done, resume(&mut ring, 0), ring.rounds_done), (0, "is done".to_owned(), 1));
    }

    #[test]
    fn the_first_rank_sends_to_all_others_and_waits_for_all_answers() {
        let mut job = job(Pattern::OneToAll, 4, 2);
        job.sleep = None;
        let mut all = messages(&job);
        assert_eq!(act(&mut all, 0), "computes 3 us, sends to 1, sends to 2, sends to 3, waits");
        assert_eq!(act(&mut all, 2), "receives, sends to 0, ends a round");
        assert_eq!(all.missing(0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(act(&mut all, 3), "receives, sends to 0, ends a round");
        assert!(!all.can_receive(0));
        assert_eq!(act(&mut all, 1), "receives, sends to 0, ends a round");
        assert_eq!(resume(&mut all, 0), "ends a round");
    }

    #[test]
    fn neighbours_exchange_messages_and_may_be_a_round_ahead() {
        let mut ring = messages(&job(Pattern::Exchange, 4, 2));
        let line = |to: &str| format!("computes 3 us, sleeps 2 us, {to}, waits");
        assert_eq!(act(&mut ring, 0), line("sends to 1, sends to 3"));
        assert_eq!(act(&mut ring, 1), line("sends to 0, sends to 2"));
        assert_eq!(act(&mut ring, 3), line("sends to 0, sends to 2"));
        // It goes on to the next round, and what it sends is kept for that.
        assert_eq!(resume(&mut ring, 0), "ends a round");
        assert_eq!(act(&mut ring, 0), line("sends to 1, sends to 3"));
        assert_eq!(ring.missing(1).collect::<Vec<_>>(), [2]);
        assert_eq!(act(&mut ring, 2), line("sends to 1, sends to 3").replace("waits", "receives, ends a round"));
        assert_eq!(resume(&mut ring, 1), "ends a round");
        assert_eq!((ring.missing(1).collect::<Vec<_>>(), ring.rounds_done), (vec![2], 0));
        let two = messages(&job(Pattern::Exchange, 2, 1));
        assert_eq!([two.receivers(0), two.receivers(1)], [[1], [0]]);
    }

    #[test]
    fn a_rank_loads_its_program_once_and_each_round_takes_time() {
        let job = Message { compute: None, sleep: None, ..job(Pattern::Ring, 2, 9) };
        let mut ring = Messages::new(&job, &Machine::with_cpus(1), "job", 1, us(7));
        assert_eq!(act(&mut ring, 1), "computes 7 us, waits");
        assert_eq!(act(&mut ring, 0), "computes 7 us, computes 1 ns, sends to 1, waits");
        assert_eq!(resume(&mut ring, 1), "sends to 0, ends a round");
        assert_eq!(act(&mut ring, 1), "waits");
        assert_eq!(resume(&mut ring, 0), "ends a round");
        assert_eq!(act(&mut ring, 0), "computes 1 ns, sends to 1, waits");
    }

    /// The next step of a rank.
    #[derive(Clone, Copy, PartialEq)]
    enum Next {
        Act,
        Receive,
        Nothing,
    }

    proptest! {
        /// Ranks act in any order, and messages of different pairs arrive in any order.
        #[test]
        fn every_rank_completes_its_rounds_and_a_round_is_over_with_the_slowest(
            pattern in select(Pattern::ALL.to_vec()), ranks in 2_u32..8, rounds in 1_u64..6, seed in 0_u64..1_000,
        ) {
            let mut messages = messages(&job(pattern, ranks, rounds));
            let mut order = Stream::named(seed, "order", 0);
            let mut next = vec![Next::Act; ranks as usize];
            let (mut through, mut under_way) = (vec![0; ranks as usize], Vec::new());
            while next.iter().any(|next| *next != Next::Nothing) {
                let choice = order.below(u64::from(ranks) + under_way.len() as u64) as usize;
                let Some(number) = Some(choice).filter(|choice| *choice < ranks as usize) else {
                    let (from, to): (usize, usize) = under_way.swap_remove(choice - ranks as usize);
                    let was_last = messages.arrive(from, to);
                    prop_assert!(!was_last || messages.can_receive(to));
                    continue;
                };
                match next[number] {
                    Next::Nothing => {}
                    Next::Receive if !messages.receive(number) => prop_assert!(messages.missing(number).count() > 0),
                    Next::Act | Next::Receive => {
                        next[number] = Next::Act;
                        match messages.next(number) {
                            RankAction::Send => {
                                under_way.extend(messages.receivers(number).iter().map(|&to| (number, to as usize)));
                            }
                            RankAction::Receive => next[number] = Next::Receive,
                            RankAction::EndRound { done } => {
                                through[number] += 1;
                                prop_assert_eq!(done, through[number] == rounds);
                                next[number] = if done { Next::Nothing } else { Next::Act };
                            }
                            RankAction::Compute(_) | RankAction::Sleep(_) => {}
                        }
                        prop_assert_eq!(Some(&messages.rounds_done), through.iter().min());
                    }
                }
            }
            prop_assert!(under_way.is_empty(), "every message is received");
            prop_assert!((0..ranks as usize).all(|rank| messages.senders(rank).eq(messages.missing(rank))));
        }
    }
}
