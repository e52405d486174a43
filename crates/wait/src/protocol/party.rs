//! A party of a barrier, in one process or in shared memory.

use std::{fmt, time};

use policy::ThreadId;
use policy::record::{Off, Recorder};
use policy::waiting::{Missing, Waiter};

use crate::deadline;
use crate::observer::{Observer, WaitEvent};
use crate::protocol::shared_state::{RoundEnd, SharedState, Ticket};
use crate::protocol::wait_loop::Wait;
use crate::statistics::Counters;
use crate::sync;
use crate::waiting::Waiting;

/// A member of a barrier's team: it remembers what its rule has learnt, and lets the others see where it was last.
///
/// Two of the same number at a time are harmless but for the rule: each overwrites where the other was seen.
pub struct Party<'b, R: Recorder = Off> {
    shared: SharedState<'b>,
    waiting: Waiting,
    /// What the waiter of an anonymous member is for each of its waits.
    fresh: Waiter,
    recorder: &'b R,
    /// Nothing for an anonymous member.
    number: Option<u32>,
    waiter: Waiter,
    /// Who is missing, while a step is decided; kept so that a wait need not allocate.
    missing: Vec<Missing>,
    /// Where its waits are counted, if not in its slot.
    counters: Option<&'b Counters>,
}

/// A thread has arrived and is yet to wait for the others: it can do something else in between.
///
/// The arrival counts whatever becomes of this value; whoever drops it knows in another way when the round is over.
#[must_use = "a thread that goes on without waiting for its arrival's round has not met the others"]
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival(pub(crate) Ticket);

impl Arrival {
    /// Its number among all arrivals at its barrier, by which the barrier [knows it](Barrier::arrival): for those who
    /// cannot keep the value itself.
    pub fn number(&self) -> u64 {
        self.0.number
    }
}

impl<'b, R: Recorder> Party<'b, R> {
    pub(crate) fn of(
        shared: SharedState<'b>,
        waiting: Waiting,
        waiter: Waiter,
        recorder: &'b R,
        number: u32,
    ) -> Party<'b, R> {
        let number = (number < shared.parties()).then_some(number);
        let looks = number.is_some() && (waiter.inputs().missing || R::ON);
        let missing = Vec::with_capacity(if looks { shared.parties() as usize } else { 0 });
        Party { shared, waiting, fresh: waiter, recorder, number, waiter, missing, counters: None }
    }

    /// Counts what its waits come to here from now on, and no longer in the barrier's statistics.
    pub fn count_in(&mut self, counters: &'b Counters) {
        self.counters = Some(counters);
    }

    /// Waits until as many threads as there are parties have arrived, the caller included. One of them, the last to
    /// arrive, is told that it is_leader.
    pub fn wait(&mut self) -> BarrierWaitResult {
        self.wait_observed(&mut ())
    }

    /// As [`Party::wait`], telling `observer` what this member does meanwhile.
    #[inline]
    pub fn wait_observed<W: Observer>(&mut self, observer: &mut W) -> BarrierWaitResult {
        let ticket = self.shared.arrive(self.published_number(), || {
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

    /// Waits as [`Party::wait`] does, but no longer than to the deadline.
    ///
    /// # Errors
    /// When the deadline has passed: the arrival, which counts all the same. The thread can go on waiting for its round
    /// by [`Party::complete`].
    pub fn wait_until(&mut self, deadline: time::Instant) -> Result<BarrierWaitResult, Arrival> {
        let arrival = self.arrive();
        self.complete_until(arrival, deadline)
    }

    /// As [`Party::wait_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Party::wait_until`].
    pub fn wait_timeout(&mut self, timeout: time::Duration) -> Result<BarrierWaitResult, Arrival> {
        let arrival = self.arrive();
        self.complete_timeout(arrival, timeout)
    }

    /// Arrives, and does not wait. Never blocks.
    pub fn arrive(&mut self) -> Arrival {
        self.arrive_and(|| ())
    }

    /// Arrives, and does not wait. If it is the last of its round to do so, it first does `completion`, while the others still
    /// wait; if that panics, they are let go all the same.
    pub fn arrive_and(&mut self, completion: impl FnOnce()) -> Arrival {
        Arrival(self.shared.arrive(self.published_number(), completion))
    }

    /// Arrives for the last time: later rounds do without this member. Never blocks.
    ///
    /// Only for teams of as many threads as there are parties: where more take turns, nobody knows whose turn is left out. Nobody may
    /// arrive under this number any more, nor leave again: rounds would be over before all have come.
    pub fn arrive_and_leave(self) -> Arrival {
        self.arrive_and_leave_and(|| ())
    }

    /// As [`Party::arrive_and_leave`], with a completion as in [`Party::arrive_and`].
    pub fn arrive_and_leave_and(self, completion: impl FnOnce()) -> Arrival {
        Arrival(self.shared.arrive_and_leave(self.number, completion))
    }

    /// Whether all have arrived in the round of `arrival`. If so, what they did before is visible.
    pub fn has_completed(&self, arrival: &Arrival) -> bool {
        self.shared.has_completed(arrival.0.round)
    }

    /// Waits until all have arrived in the round of `arrival`, which must be one at this barrier.
    pub fn complete(&mut self, arrival: Arrival) -> BarrierWaitResult {
        let is_leader = arrival.0.is_leader;
        // Without a deadline it ends in one way only.
        let _ = self.complete_by(arrival, None);
        BarrierWaitResult { is_leader }
    }

    /// As [`Party::complete`], but waits no longer than to the deadline.
    ///
    /// # Errors
    /// The arrival back, when the deadline has passed.
    pub fn complete_until(&mut self, arrival: Arrival, deadline: time::Instant) -> Result<BarrierWaitResult, Arrival> {
        self.complete_by(arrival, Some(deadline::at(deadline)))
    }

    /// As [`Party::complete_until`], with a timeout that begins now.
    ///
    /// # Errors
    /// As [`Party::complete_until`].
    pub fn complete_timeout(
        &mut self,
        arrival: Arrival,
        timeout: time::Duration,
    ) -> Result<BarrierWaitResult, Arrival> {
        self.complete_by(arrival, Some(deadline::after(timeout)))
    }

    pub(crate) fn complete_by(
        &mut self,
        arrival: Arrival,
        deadline: Option<policy::Instant>,
    ) -> Result<BarrierWaitResult, Arrival> {
        let Arrival(ticket) = arrival;
        if self.shared.has_completed(ticket.round) || self.wait_for_round(ticket, deadline, &mut ()) {
            Ok(BarrierWaitResult { is_leader: ticket.is_leader })
        } else {
            Err(arrival)
        }
    }

    /// The number under which the others are to see where this member is, if they look.
    #[inline]
    fn published_number(&self) -> Option<u32> {
        self.number.filter(|_| self.fresh.inputs().missing || R::ON || self.shared.namespace.is_some())
    }

    /// Does as the rule decides until the round is over or the deadline has passed, and returns whether it is over.
    #[inline]
    fn wait_for_round<W: Observer>(
        &mut self,
        ticket: Ticket,
        deadline: Option<policy::Instant>,
        observer: &mut W,
    ) -> bool {
        let shared = self.shared;
        if self.number.is_none() {
            self.waiter = self.fresh;
        }
        let wait = Wait {
            thread: ThreadId(self.number.unwrap_or_else(|| shared.parties().wrapping_add(ticket.number as u32))),
            threads: shared.threads(),
            cpus: self.waiting.cpus(),
            movable: self.waiting.movable(),
            state: &shared.words.state.0,
            counters: self.counters.unwrap_or(&shared.slot(self.number).counters),
            recorder: self.recorder,
            deadline,
        };
        let missing = self.number.is_some().then_some(&mut self.missing);
        let mut round_end = RoundEnd::new(shared, ticket.round, missing);
        wait.run(&mut round_end, &mut self.waiter, observer).is_ok()
    }
}

impl<R: Recorder> fmt::Debug for Party<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Party").field("number", &self.number).field("waiter", &self.waiter).finish_non_exhaustive()
    }
}

/// What a thread is told when a round is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether the caller is_leader: true for exactly one of the threads of each round.
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}
