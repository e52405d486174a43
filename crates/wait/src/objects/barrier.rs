#![doc = include_str!("../../protocol.md")]

use std::fmt;

use policy::record::{Off, Recorder};
use policy::waiting::Waiter;

pub use crate::protocol::party::{Arrival, BarrierWaitResult, Party};
use crate::protocol::shared_state::{BarrierWords, Padded, PartySlot, SharedState};
use crate::statistics::Statistics;
use crate::waiting::Waiting;

/// A place where a team of threads meets: each waits there until all have arrived, again and again.
///
/// As [`std::sync::Barrier`], but how a thread waits is decided by a waiting rule, and what that came to is counted. A
/// wait allocates no memory, unless it is the one in 100 ms that counts the CPUs anew. Each party takes 128 bytes and more. With a recorder other than [`Off`] every decision is recorded.
///
/// All that happened before a party's arrival is visible to all parties after that round's wait.
pub struct Barrier<R: Recorder = Off> {
    words: BarrierWords,
    slots: Box<[Padded<PartySlot>]>,
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
        let slots = (0..=parties.max(1)).map(|_| PartySlot::new()).collect();
        Barrier { words: BarrierWords::new(), slots, waiting, waiter: waiting.waiter(), recorder }
    }

    fn shared_state(&self) -> SharedState<'_> {
        SharedState { words: &self.words, slots: &self.slots, namespace: None }
    }

    /// How many threads meet here, those included that have left the team.
    pub fn parties(&self) -> u32 {
        self.shared_state().parties()
    }

    /// Where decisions are recorded.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// Waits until as many threads as there are parties have arrived, the caller included. One of them, the last to
    /// arrive, is told that it is_leader.
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
        Party::of(self.shared_state(), self.waiting, self.waiter, &self.recorder, number)
    }

    /// A member without a number: its waits are those of [`Barrier::wait`].
    pub fn anonymous(&self) -> Party<'_, R> {
        self.party(u32::MAX)
    }

    /// The arrival with this [number](Arrival::number), unless there has been none yet.
    pub fn arrival(&self, number: u64) -> Option<Arrival> {
        self.shared_state().ticket(number).map(Arrival)
    }

    /// What waiting has come to so far. Waits that are under way count as waits, but what they have done is added when
    /// they are over.
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
    fn a_spurious_waking_is_seen_by_the_rule_and_ends_no_wait() {
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
    fn a_member_counts_where_it_is_told_to() {
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
        // Who is woken late, for the round before, sleeps once more.
        assert!(sum.blocks <= 200 && sum.block_time.is_zero() == (sum.blocks == 0), "{sum:?}");
    }

    #[test]
    fn an_arrival_is_known_by_its_number() {
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
