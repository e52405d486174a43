#![doc = include_str!("../../protocol.md")]

use std::collections::TryReserveError;
use std::fmt;

use policy::arrival;
use policy::record::{Off, Recorder};
use policy::waiting::Waiter;

use crate::protocol::arrival_tree::ArrivalTree;
use crate::protocol::padded::Padded;
pub use crate::protocol::party::{Arrival, BarrierWaitResult, Party};
use crate::protocol::shared_state::{BarrierWords, PartySlot, SharedState};
use crate::statistics::Statistics;
use crate::waiting::Waiting;

/// A barrier, at which a team of threads meets repeatedly.
///
/// Like [`std::sync::Barrier`], but a waiting rule decides how threads wait, and their waits are
/// counted. A wait allocates no memory, except for one wait in 100 ms, which counts the CPUs again.
/// Each party takes at least 128 bytes. The arrivals of 32 parties and more are counted by a tree of
/// counters, so that threads which arrive together do not wait for one cache line; once a party has
/// left the team, or more threads than parties have arrived, by one counter. A recorder other than
/// [`Off`] records every decision.
///
/// All that happened before the arrivals of a round is visible to all parties after the wait.
pub struct Barrier<R: Recorder = Off> {
    words: BarrierWords,
    /// `None` if there are few parties, or no memory for it.
    tree: Option<ArrivalTree>,
    slots: Box<[Padded<PartySlot>]>,
    waiting: Waiting,
    /// The initial waiter of each party.
    waiter: Waiter,
    recorder: R,
}

impl Barrier {
    /// A barrier for `parties` threads (one if zero) that wait by the adaptive rule.
    pub fn new(parties: u32) -> Barrier {
        Barrier::with(parties, Waiting::ADAPTIVE)
    }

    /// A barrier for `parties` threads (one if zero) that wait like this.
    pub fn with(parties: u32, waiting: Waiting) -> Barrier {
        Barrier::with_recorder(parties, waiting, Off)
    }

    /// Like [`Barrier::with`].
    ///
    /// # Errors
    /// If there is no memory for the parties.
    pub fn try_with(parties: u32, waiting: Waiting) -> Result<Barrier, TryReserveError> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(parties.max(1) as usize + 1)?;
        slots.extend((0..=parties.max(1)).map(|_| PartySlot::new()));
        Ok(Barrier::of(slots.into(), waiting, Off))
    }
}

impl<R: Recorder> Barrier<R> {
    /// Like [`Barrier::with`], and records every decision.
    pub fn with_recorder(parties: u32, waiting: Waiting, recorder: R) -> Barrier<R> {
        Barrier::of((0..=parties.max(1)).map(|_| PartySlot::new()).collect(), waiting, recorder)
    }

    /// A barrier with a slot for each party, and one for anonymous parties.
    fn of(slots: Box<[Padded<PartySlot>]>, waiting: Waiting, recorder: R) -> Barrier<R> {
        let (words, waiter) = (BarrierWords::new(), waiting.waiter());
        let barrier = Barrier { words, tree: None, slots, waiting, waiter, recorder };
        let shape = arrival::ArrivalTree::of(barrier.parties());
        barrier.counted_by(shape)
    }

    /// Counts arrivals by a tree whose nodes await at most so many, instead of one that is chosen by
    /// the number of parties. For comparisons: `u32::MAX` is a single counter. It is a new barrier: no
    /// thread has arrived at it.
    #[must_use]
    pub fn with_fan_in(self, fan_in: u32) -> Barrier<R> {
        let shape = arrival::ArrivalTree::with_fan_in(self.parties(), fan_in);
        Barrier::with_recorder(self.parties(), self.waiting, self.recorder).counted_by(shape)
    }

    fn counted_by(mut self, shape: arrival::ArrivalTree) -> Barrier<R> {
        // Without memory for a tree, the ticket counter does.
        self.tree = ArrivalTree::new(shape).unwrap_or(None);
        self
    }

    fn shared_state(&self) -> SharedState<'_> {
        SharedState { words: &self.words, slots: &self.slots, tree: self.tree.as_ref(), namespace: None }
    }

    /// The number of parties, including those that have left the team.
    pub fn parties(&self) -> u32 {
        self.shared_state().parties()
    }

    /// The recorder of the decisions.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// Waits until all parties have arrived, including the caller. The last one is the leader.
    ///
    /// The wait is anonymous: the rule does not know which other parties are missing, and remembers
    /// nothing across waits. In a record each such wait is a thread, numbered from the size of the
    /// team.
    pub fn wait(&self) -> BarrierWaitResult {
        self.anonymous().wait()
    }

    /// The party with this number, counted from zero. A thread keeps it across its waits.
    ///
    /// A number outside the team yields an [anonymous](Barrier::anonymous) party.
    pub fn party(&self, number: u32) -> Party<'_, R> {
        Party::of(self.shared_state(), self.waiting, self.waiter, &self.recorder, number)
    }

    /// A party without a number: its waits are those of [`Barrier::wait`].
    pub fn anonymous(&self) -> Party<'_, R> {
        self.party(u32::MAX)
    }

    /// The arrival with this [number](Arrival::number), if it has happened.
    pub fn arrival(&self, number: u64) -> Option<Arrival> {
        self.shared_state().ticket(number).map(Arrival)
    }

    /// The counts of all waits so far. The other counts of an unfinished wait are added at its end.
    pub fn statistics(&self) -> Statistics {
        self.shared_state().statistics()
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

#[cfg(all(test, not(loom)))]
mod tests {
    use policy::record::Log;
    use policy::waiting::{Observation, WaitingRule};

    use super::*;
    use crate::statistics::Counters;

    #[test]
    fn a_spurious_wakeup_is_seen_by_the_rule_and_ends_no_wait() {
        let barrier = Barrier::with_recorder(2, Waiting::by(WaitingRule::AlwaysBlock), Log::default());
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| barrier.party(0).wait());
            while !barrier.recorder().entries().iter().any(|entry| entry.seen == Observation::Woken) {
                barrier.shared_state().wake_spuriously();
                std::thread::yield_now();
            }
            assert!(!sleeper.is_finished());
            assert!(barrier.party(1).wait().is_leader());
            assert!(!sleeper.join().unwrap().is_leader());
        });
        assert!(barrier.statistics().blocks >= 2);
    }

    #[test]
    fn a_party_counts_in_the_given_counters() {
        let (barrier, counters) = (Barrier::with(2, Waiting::by(WaitingRule::AlwaysBlock)), Counters::new());
        std::thread::scope(|scope| {
            for number in [0, 1] {
                let (barrier, counters) = (&barrier, &counters);
                scope.spawn(move || {
                    let mut party = barrier.party(number);
                    party.count_in(counters);
                    (0..100).for_each(|_| {
                        party.wait();
                    });
                });
            }
        });
        let mut sum = Statistics::default();
        counters.add_to(&mut sum);
        assert_eq!(barrier.statistics(), Statistics { waits: 200, ..Statistics::default() });
        // A thread that is woken late, for the previous round, sleeps again.
        assert!(sum.blocks <= 200 && sum.block_time.is_zero() == (sum.blocks == 0), "{sum:?}");
    }

    #[test]
    fn an_arrival_is_found_by_its_number() {
        let barrier = Barrier::with(2, Waiting::by(WaitingRule::AlwaysBlock));
        assert_eq!(barrier.arrival(0), None);
        let arrivals = [0, 1].map(|number| barrier.party(number).arrive());
        for (number, arrival) in (0..).zip(arrivals) {
            assert_eq!(arrival.number(), number);
            assert_eq!(barrier.arrival(number), Some(arrival));
        }
        assert_eq!(barrier.arrival(2), None);
    }
}
