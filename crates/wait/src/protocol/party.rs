//! A party of a barrier, in one process or in shared memory.

use std::fmt;

use policy::record::{Off, Recorder};
use policy::waiting::{Missing, Waiter};
use policy::{Instant, ThreadId};

use crate::deadline::Deadline;
use crate::observer::{Observer, WaitEvent};
use crate::protocol::shared_state::{RoundEnd, SharedState, Ticket};
use crate::protocol::wait_loop::Wait;
use crate::statistics::Counters;
use crate::sync;
use crate::waiting::Waiting;

/// A party of a barrier. It keeps what its rule has learnt, and publishes where it arrived last.
///
/// Two parties with the same number overwrite each other's last arrival, which only misleads rules.
pub struct Party<'b, R: Recorder = Off> {
    shared: SharedState<'b>,
    waiting: Waiting,
    /// The initial waiter. An anonymous party uses a copy of it for each wait.
    fresh: Waiter,
    recorder: &'b R,
    /// `None` for an anonymous party.
    number: Option<u32>,
    waiter: Waiter,
    /// The missing parties during a decision. A buffer, so that waiting does not allocate; without
    /// capacity if it is not needed.
    missing: Vec<Missing>,
    /// Where to count its waits, if not in its slot.
    counters: Option<&'b Counters>,
}

/// The arrival of a thread that has yet to wait for the others, and can do other work before.
///
/// The arrival counts even if this value is dropped.
#[must_use = "a thread that does not wait for its arrival's round has not met the others"]
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival(pub(crate) Ticket);

impl Arrival {
    /// The number of the arrival: each arrival at the barrier has its own, and those of a round
    /// precede those of the next. [`Barrier::arrival`](crate::Barrier::arrival) returns the arrival
    /// with that number, for callers that cannot store the value itself.
    pub fn number(&self) -> u64 {
        self.0.number
    }
}

/// The result of a wait that may return the arrival instead.
type CompletionResult = Result<BarrierWaitResult, Arrival>;

impl<'b, R: Recorder> Party<'b, R> {
    pub(crate) fn of(shared: SharedState<'b>, waiting: Waiting, waiter: Waiter, recorder: &'b R, number: u32) -> Self {
        let number = (number < shared.parties()).then_some(number);
        let needs_missing = number.is_some() && (waiter.inputs().missing || R::ON);
        let mut missing = Vec::new();
        if needs_missing {
            // Without memory for it, the rule does not know which parties are missing.
            let _ = missing.try_reserve_exact(shared.parties() as usize);
        }
        Party { shared, waiting, fresh: waiter, recorder, number, waiter, missing, counters: None }
    }

    /// Counts the waits of this party in `counters` instead of the barrier's statistics.
    pub fn count_in(&mut self, counters: &'b Counters) {
        self.counters = Some(counters);
    }

    /// Waits until all parties have arrived, including the caller. The last one is the leader.
    pub fn wait(&mut self) -> BarrierWaitResult {
        self.wait_observed(&mut ())
    }

    /// Like [`Party::wait`], and tells `observer` what the party does meanwhile.
    #[inline]
    pub fn wait_observed<W: Observer>(&mut self, observer: &mut W) -> BarrierWaitResult {
        let is_read = self.publish_clock();
        let ticket = self.shared.arrive(self.number, is_read, || {
            if W::ON {
                observer.on_event(sync::now(), WaitEvent::RoundCompleted);
            }
        });
        if !ticket.is_leader {
            self.wait_for_round(ticket, None, observer);
        } else if W::ON {
            observer.on_event(sync::now(), WaitEvent::Resumed);
        }
        BarrierWaitResult { is_leader: ticket.is_leader }
    }

    /// Like [`Party::wait`], but waits at most until the deadline.
    ///
    /// # Errors
    /// If the deadline passes, returns the arrival, which still counts. The thread can continue to
    /// wait for its round by [`Party::complete`].
    pub fn wait_timeout(&mut self, deadline: impl Into<Deadline>) -> CompletionResult {
        let arrival = self.arrive();
        self.complete_timeout(arrival, deadline)
    }

    /// Arrives without waiting. Never blocks.
    pub fn arrive(&mut self) -> Arrival {
        self.arrive_and(|| ())
    }

    /// Arrives without waiting. The last arrival of a round first calls `completion`, while the
    /// others still wait. If that panics, they are released nevertheless.
    pub fn arrive_and(&mut self, completion: impl FnOnce()) -> Arrival {
        let is_read = self.publish_clock();
        Arrival(self.shared.arrive(self.number, is_read, completion))
    }

    /// Arrives for the last time: later rounds do not wait for this party. Never blocks.
    ///
    /// Only for teams with as many threads as parties: if more threads take turns, it is unclear
    /// whose turn is left out. No thread may use this number afterwards, or rounds complete too
    /// early.
    pub fn arrive_and_leave(self) -> Arrival {
        self.arrive_and_leave_and(|| ())
    }

    /// Like [`Party::arrive_and_leave`], with a completion as in [`Party::arrive_and`].
    pub fn arrive_and_leave_and(self, completion: impl FnOnce()) -> Arrival {
        Arrival(self.shared.arrive_and_leave(self.number, completion))
    }

    /// Whether all have arrived in the round of `arrival`. If so, what they did before is visible.
    pub fn has_completed(&self, arrival: &Arrival) -> bool {
        self.shared.has_completed(arrival.0.round)
    }

    /// Waits until all have arrived in the round of `arrival`, an arrival at this barrier.
    pub fn complete(&mut self, arrival: Arrival) -> BarrierWaitResult {
        let is_leader = arrival.0.is_leader;
        // Without a deadline, this always succeeds.
        let _ = self.complete_timeout(arrival, Deadline::NEVER);
        BarrierWaitResult { is_leader }
    }

    /// Like [`Party::complete`], but waits at most until the deadline.
    ///
    /// # Errors
    /// If the deadline passes, returns the arrival.
    pub fn complete_timeout(&mut self, arrival: Arrival, deadline: impl Into<Deadline>) -> CompletionResult {
        let (ticket, deadline) = (arrival.0, deadline.into().0);
        if self.shared.has_completed(ticket.round) || self.wait_for_round(ticket, deadline, &mut ()) {
            Ok(BarrierWaitResult { is_leader: ticket.is_leader })
        } else {
            Err(arrival)
        }
    }

    /// Lets other parties find out whether this thread runs, if their rule may ask. Returns whether
    /// others read where the party has arrived.
    #[inline]
    fn publish_clock(&self) -> bool {
        let (Some(number), inputs) = (self.number, self.fresh.inputs()) else { return false };
        // The clock of a thread means nothing in another process.
        if inputs.running && self.shared.namespace.is_none() {
            self.shared.slot(Some(number)).publish_clock();
        }
        inputs.missing || inputs.running || R::ON || self.shared.namespace.is_some()
    }

    /// Follows the rule until the deadline or the end of the round. Returns whether it is over.
    #[inline]
    fn wait_for_round<W: Observer>(&mut self, ticket: Ticket, deadline: Option<Instant>, observer: &mut W) -> bool {
        let shared = self.shared;
        if self.number.is_none() {
            self.waiter = self.fresh;
        }
        let is_possible = || shared.lost(ticket.round).is_none();
        let wait = Wait {
            thread: ThreadId(self.number.unwrap_or_else(|| shared.parties().wrapping_add(ticket.number as u32))),
            threads: shared.threads(),
            round: ticket.round.0,
            waiting: &self.waiting,
            state: &shared.words.state.0,
            counters: self.counters.unwrap_or(&shared.slot(self.number).counters),
            recorder: self.recorder,
            is_possible: shared.namespace.map(|_| &is_possible as _),
            deadline,
        };
        let missing = (self.missing.capacity() > 0).then_some(&mut self.missing);
        let mut round_end = RoundEnd { shared, round: ticket.round, number: self.number, missing, is_listed: false };
        wait.run(&mut round_end, &mut self.waiter, observer).is_ok()
    }
}

impl<R: Recorder> fmt::Debug for Party<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Party").field("number", &self.number).field("waiter", &self.waiter).finish_non_exhaustive()
    }
}

/// The result of a round for one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether the caller is the leader: true for exactly one thread of each round.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}
