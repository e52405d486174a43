#![doc = include_str!("../protocol.md")]

use std::fmt;
use std::time;

use policy::ThreadId;
use policy::record::{Off, Recorder};
use policy::waiting::{Missing, Waiter};

use crate::deadline;
use crate::hall::{Hall, Head, Padded, RoundEnd, Slot, Ticket};
use crate::outlast::Wait;
use crate::statistics::{Counters, Statistics};
use crate::sync;
use crate::waiting::Waiting;
use crate::watch::{Moment, Watch};

/// A place where a team of threads meets: each waits there until all have arrived, again and again.
///
/// As [`std::sync::Barrier`], but how a thread waits is decided by a waiting rule, and what that came to is counted. A
/// wait allocates no memory, unless it is the one in 100 ms that counts the CPUs anew. Each party takes 128 bytes and more. With a recorder other than [`Off`] every decision is recorded.
///
/// All that happened before a party's arrival is visible to all parties after that round's wait.
pub struct Barrier<R: Recorder = Off> {
    head: Head,
    slots: Box<[Padded<Slot>]>,
    waiting: Waiting,
    /// What every member's waiter is a copy of.
    waiter: Waiter,
    recorder: R,
}

impl Barrier {
    /// A barrier for `parties` threads (for one, where it says none) that wait as the machine lets them: by the adaptive
    /// rule.
    pub fn new(parties: u32) -> Barrier {
        Barrier::with(parties, Waiting::ADAPTIVE)
    }

    /// A barrier for `parties` threads (for one, where it says none) that wait like this.
    pub fn with(parties: u32, waiting: Waiting) -> Barrier {
        Barrier::with_recorder(parties, waiting, Off)
    }
}

impl<R: Recorder> Barrier<R> {
    /// As [`Barrier::with`], recording every decision.
    pub fn with_recorder(parties: u32, waiting: Waiting, recorder: R) -> Barrier<R> {
        let slots = (0..=parties.max(1)).map(|_| Slot::new()).collect();
        Barrier { head: Head::new(), slots, waiting, waiter: waiting.waiter(), recorder }
    }

    fn hall(&self) -> Hall<'_> {
        Hall { head: &self.head, slots: &self.slots, namespace: None }
    }

    /// How many threads meet here, those included that have left the team.
    pub fn parties(&self) -> u32 {
        self.hall().parties()
    }

    /// Where decisions are recorded.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// Waits until as many threads as there are parties have arrived, the caller included. One of them, the last to
    /// arrive, is told that it leads.
    ///
    /// The wait is anonymous: the rule knows nothing about who else is missing, and remembers nothing from wait to wait.
    /// A record shows each such wait as a thread of its own, numbered from the size of the team upwards.
    pub fn wait(&self) -> BarrierWaitResult {
        self.anonymous().wait()
    }

    /// The member of the team with this number, counted from zero, for one thread to keep from wait to wait.
    ///
    /// A number outside the team makes an [anonymous](Barrier::anonymous) member.
    pub fn party(&self, number: u32) -> Party<'_, R> {
        Party::of(self.hall(), self.waiting, self.waiter, &self.recorder, number)
    }

    /// A member without a number: its waits are those of [`Barrier::wait`].
    pub fn anonymous(&self) -> Party<'_, R> {
        self.party(u32::MAX)
    }

    /// The arrival with this [number](Arrival::number), unless there has been none yet.
    pub fn arrival(&self, number: u64) -> Option<Arrival> {
        self.hall().ticket(number).map(Arrival)
    }

    /// What waiting has come to so far. Waits that are under way count as waits, but what they have done is added when
    /// they are over.
    pub fn statistics(&self) -> Statistics {
        self.hall().statistics()
    }
}

impl<R: Recorder> fmt::Debug for Barrier<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("parties", &self.parties())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// A member of a barrier's team: it remembers what its rule has learnt, and lets the others see where it was last.
///
/// Two of the same number at a time are harmless but for the rule: each overwrites where the other was seen.
pub struct Party<'b, R: Recorder = Off> {
    hall: Hall<'b>,
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
    pub(crate) fn of(hall: Hall<'b>, waiting: Waiting, waiter: Waiter, recorder: &'b R, number: u32) -> Party<'b, R> {
        let number = (number < hall.parties()).then_some(number);
        let looks = number.is_some() && (waiter.wants().missing || R::ON);
        let missing = Vec::with_capacity(if looks { hall.parties() as usize } else { 0 });
        Party { hall, waiting, fresh: waiter, recorder, number, waiter, missing, counters: None }
    }

    /// Counts what its waits come to here from now on, and no longer in the barrier's statistics.
    pub fn count_at(&mut self, counters: &'b Counters) {
        self.counters = Some(counters);
    }

    /// Waits until as many threads as there are parties have arrived, the caller included. One of them, the last to
    /// arrive, is told that it leads.
    pub fn wait(&mut self) -> BarrierWaitResult {
        self.wait_watched(&mut ())
    }

    /// As [`Party::wait`], telling `watch` what this member does meanwhile.
    #[inline]
    pub fn wait_watched<W: Watch>(&mut self, watch: &mut W) -> BarrierWaitResult {
        let ticket = self.hall.arrive(self.sighted(), || {
            if W::ON {
                watch.sees(sync::now(), Moment::Completes);
            }
        });
        if !ticket.leads {
            self.outlast(ticket, None, watch);
        } else if W::ON {
            watch.sees(sync::now(), Moment::GoesOn);
        }
        BarrierWaitResult { leads: ticket.leads }
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
        Arrival(self.hall.arrive(self.sighted(), completion))
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
        Arrival(self.hall.arrive_and_leave(self.number, completion))
    }

    /// Whether all have arrived in the round of `arrival`. If so, what they did before is visible.
    pub fn has_completed(&self, arrival: &Arrival) -> bool {
        self.hall.has_completed(arrival.0.round)
    }

    /// Waits until all have arrived in the round of `arrival`, which must be one at this barrier.
    pub fn complete(&mut self, arrival: Arrival) -> BarrierWaitResult {
        let leads = arrival.0.leads;
        // Without a deadline it ends in one way only.
        let _ = self.complete_by(arrival, None);
        BarrierWaitResult { leads }
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
        if self.hall.has_completed(ticket.round) || self.outlast(ticket, deadline, &mut ()) {
            Ok(BarrierWaitResult { leads: ticket.leads })
        } else {
            Err(arrival)
        }
    }

    /// The number under which the others are to see where this member is, if they look.
    #[inline]
    fn sighted(&self) -> Option<u32> {
        self.number.filter(|_| self.fresh.wants().missing || R::ON || self.hall.namespace.is_some())
    }

    /// Does as the rule decides until the round is over or the deadline has passed, and returns whether it is over.
    #[inline]
    fn outlast<W: Watch>(&mut self, ticket: Ticket, deadline: Option<policy::Instant>, watch: &mut W) -> bool {
        let hall = self.hall;
        if self.number.is_none() {
            self.waiter = self.fresh;
        }
        let wait = Wait {
            thread: ThreadId(self.number.unwrap_or_else(|| hall.parties().wrapping_add(ticket.number as u32))),
            threads: hall.threads(),
            cpus: self.waiting.cpus(),
            movable: self.waiting.movable(),
            state: &hall.head.state.0,
            counters: self.counters.unwrap_or(&hall.slot(self.number).counters),
            recorder: self.recorder,
            deadline,
        };
        let missing = self.number.is_some().then_some(&mut self.missing);
        let mut round_end = RoundEnd::new(hall, ticket.round, missing);
        wait.outlast(&mut round_end, &mut self.waiter, watch).is_ok()
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
    leads: bool,
}

impl BarrierWaitResult {
    /// Whether the caller leads: true for exactly one of the threads of each round.
    pub fn is_leader(&self) -> bool {
        self.leads
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use policy::record::Log;
    use policy::waiting::{Observation, Rule};

    use super::*;

    #[test]
    fn a_spurious_waking_is_seen_by_the_rule_and_ends_no_wait() {
        let barrier = Barrier::with_recorder(2, Waiting::by(Rule::AlwaysBlock), Log::default());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| barrier.party(0).wait());
            while !barrier.recorder().entries().iter().any(|entry| entry.seen == Observation::Woken) {
                barrier.hall().wake_spuriously();
                std::thread::yield_now();
            }
            assert!(!sleeper.is_finished());
            assert!(barrier.party(1).wait().is_leader());
            assert!(!sleeper.join().unwrap().is_leader());
        });
        assert!(barrier.statistics().blocks >= 2);
    }

    #[test]
    fn a_member_counts_where_it_is_told_to() {
        let (barrier, counters) = (Barrier::with(2, Waiting::by(Rule::AlwaysBlock)), Counters::new());
        std::thread::scope(|scope| {
            for number in [0, 1] {
                let (barrier, counters) = (&barrier, &counters);
                scope.spawn(move || {
                    let mut party = barrier.party(number);
                    party.count_at(counters);
                    (0..100).for_each(|_| {
                        party.wait();
                    });
                });
            }
        });
        let mut sum = Statistics::default();
        counters.add_to(&mut sum);
        assert_eq!(barrier.statistics(), Statistics { waits: 200, ..Statistics::default() });
        // Who is woken late, for the round before, sleeps once more.
        assert!(sum.blocks <= 200 && sum.block_time.is_zero() == (sum.blocks == 0), "{sum:?}");
    }

    #[test]
    fn an_arrival_is_known_by_its_number() {
        let barrier = Barrier::with(2, Waiting::by(Rule::AlwaysBlock));
        assert_eq!(barrier.arrival(0), None);
        let arrivals = [0, 1].map(|number| barrier.party(number).arrive());
        for (number, arrival) in (0..).zip(arrivals) {
            assert_eq!(arrival.number(), number);
            assert_eq!(barrier.arrival(number), Some(arrival));
        }
        assert_eq!(barrier.arrival(2), None);
    }
}
