//! The state that all parties of a barrier share, in one process or in shared memory.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use policy::waiting::{Missing, Running, TeamState};
use policy::{Instant, ThreadId};

use crate::protocol::arrival_tree::ArrivalTree;
use crate::protocol::generation::{GenerationWord, Round};
use crate::protocol::last_arrival::LastArrival;
use crate::protocol::padded::Padded;
use crate::protocol::process_slot::ProcessSlot;
use crate::protocol::wait_loop::Awaited;
use crate::statistics::{Counters, Statistics};
use crate::sync::{self, AtomicU32, AtomicU64, Scope};

/// The words that all parties use.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BarrierWords {
    /// The ticket counter: the number of arrivals since the beginning.
    arrivals: Padded<AtomicU64>,
    word: Padded<GenerationWord>,
    /// The rule's [`TeamState`].
    pub(crate) state: Padded<AtomicU64>,
    left: Padded<Left>,
}

/// The parties that have left the team.
#[derive(Debug)]
#[repr(C)]
struct Left {
    /// Their number.
    parties: AtomicU64,
    /// The number of arrivals on their behalf.
    arrivals: AtomicU64,
}

impl BarrierWords {
    pub(crate) fn new() -> BarrierWords {
        BarrierWords {
            arrivals: Padded(AtomicU64::new(0)),
            word: Padded(GenerationWord::new()),
            state: Padded(AtomicU64::new(TeamState::default().0)),
            left: Padded(Left { parties: AtomicU64::new(0), arrivals: AtomicU64::new(0) }),
        }
    }
}

/// The part of one party: written by it alone, read by others occasionally.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PartySlot {
    /// The process of the party. Always free if all parties belong to one process.
    pub(crate) process: ProcessSlot,
    pub(crate) last_arrival: LastArrival,
    /// The number of the thread's [CPU clock](sync::own_clock) at its last arrival. Zero if
    /// unknown.
    clock: AtomicU32,
    pub(crate) counters: Counters,
}

impl PartySlot {
    pub(crate) fn new() -> Padded<PartySlot> {
        let (process, last_arrival) = (ProcessSlot::free(), LastArrival::none());
        Padded(PartySlot { process, last_arrival, clock: AtomicU32::new(0), counters: Counters::new() })
    }

    /// Lets others find out whether the calling thread, that of this party, runs.
    #[inline]
    pub(crate) fn publish_clock(&self) {
        let clock = sync::own_clock();
        if self.clock.load(Relaxed) != clock {
            self.clock.store(clock, Relaxed);
        }
    }
}

/// The memory of a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedState<'a> {
    pub(crate) words: &'a BarrierWords,
    /// One slot for each party by its number. The last one is for anonymous parties.
    pub(crate) slots: &'a [Padded<PartySlot>],
    /// Counts the arrivals in place of the ticket counter, as long as it can.
    pub(crate) tree: Option<&'a ArrivalTree>,
    /// The PID namespace of the processes. `None` within one process.
    pub(crate) namespace: Option<u64>,
}

/// An arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    pub(crate) round: Round,
    pub(crate) is_leader: bool,
}

/// An awaited party has died or was dropped, so the barrier can no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("party {number} of the barrier is lost with process {pid}: remove the barrier and create a new one")]
pub struct LostParty {
    /// The lowest number of such a party.
    pub number: u32,
    /// Its process.
    pub pid: u32,
}

impl<'a> SharedState<'a> {
    pub(crate) fn parties(self) -> u32 {
        self.slots.len().saturating_sub(1).max(1) as u32
    }

    /// The number of parties that are still awaited.
    pub(crate) fn threads(self) -> u32 {
        self.parties().saturating_sub(self.words.left.0.parties.load(Relaxed) as u32)
    }

    /// The slot of the party with this number, or that of anonymous parties.
    pub(crate) fn slot(self, number: Option<u32>) -> &'a PartySlot {
        &self.slots[number.unwrap_or(self.parties()) as usize].0
    }

    /// Arrives. The last arrival of a round calls `before_release` and then releases the others.
    /// `is_read`: others read where the party has arrived.
    #[inline]
    pub(crate) fn arrive(self, party: Option<u32>, is_read: bool, before_release: impl FnOnce()) -> Ticket {
        let ticket = self.ticket_of(self.draw(party));
        if is_read && party.is_some() {
            self.slot(party).last_arrival.publish(ticket.round, ticket.is_leader, sync::current_cpu());
        }
        if ticket.is_leader {
            // Releases the others even if `before_release` panics.
            let _release = Release(self, ticket.round);
            before_release();
        }
        ticket
    }

    /// Draws the number of an arrival.
    #[inline]
    fn draw(self, party: Option<u32>) -> u64 {
        if let Some(number) = self.tree.and_then(|tree| tree.arrive(&self.words.word.0, party)) {
            return number;
        }
        let ticket = self.words.arrivals.0.fetch_add(1, AcqRel);
        self.tree.map_or(ticket, |tree| ticket.wrapping_add(tree.arrivals_before_counter()))
    }

    /// The ticket with this number, if it has been drawn.
    pub(crate) fn ticket(self, number: u64) -> Option<Ticket> {
        let by_counter = self.words.arrivals.0.load(Relaxed);
        let is_drawn = match self.tree {
            None => number < by_counter,
            Some(tree) if !self.words.word.0.generation().is_counted() => tree.has_happened(number),
            Some(tree) => {
                let place = number.checked_sub(tree.arrivals_before_counter());
                place.map_or_else(|| tree.has_happened(number), |place| place < by_counter)
            }
        };
        is_drawn.then(|| self.ticket_of(number))
    }

    #[inline]
    fn ticket_of(self, number: u64) -> Ticket {
        let parties = u64::from(self.parties());
        Ticket { number, round: Round(number / parties), is_leader: number % parties == parties - 1 }
    }

    /// Arrives for the last time: later rounds do not wait for this party.
    pub(crate) fn arrive_and_leave(self, number: Option<u32>, before_release: impl FnOnce()) -> Ticket {
        self.words.left.0.parties.fetch_add(1, Relaxed);
        if let Some(number) = number {
            self.slot(Some(number)).last_arrival.leave();
        }
        self.arrive(number, false, before_release)
    }

    pub(crate) fn scope(self) -> Scope {
        if self.namespace.is_some() { Scope::Shared } else { Scope::Process }
    }

    /// A dead party without which `round` cannot complete. Always `None` within one process.
    ///
    /// If a party has published that it was the last to arrive, all have arrived, and the round
    /// waits only for that party to release the others. A party that drew the last ticket and was
    /// killed before it could publish that counts as missing.
    pub(crate) fn lost(self, round: Round) -> Option<LostParty> {
        let namespace = self.namespace?;
        let lost = |number: u32, slot: &PartySlot| Some(LostParty { number, pid: slot.process.lost_pid(namespace)? });
        let slots = || (0..).zip(self.slots.iter().map(|slot| &slot.0));
        if let Some((number, leader)) = slots().find(|(_, slot)| slot.last_arrival.is_leader_of(round)) {
            return lost(number, leader);
        }
        slots().find_map(|(number, slot)| {
            // A party may have been killed while it was leaving, before it arrived.
            let is_awaited = slot.last_arrival.missing_from(round).is_some() || slot.last_arrival.is_leaving();
            if is_awaited { lost(number, slot) } else { None }
        })
    }

    #[inline]
    pub(crate) fn has_completed(self, round: Round) -> bool {
        self.words.word.0.has_completed(round)
    }

    pub(crate) fn statistics(self) -> Statistics {
        let absent = self.words.left.0.arrivals.load(Relaxed);
        let by_tree = self.tree.map_or(0, ArrivalTree::arrivals);
        let waits = self.words.arrivals.0.load(Relaxed).wrapping_add(by_tree).saturating_sub(absent);
        let mut sum = Statistics { waits, ..Statistics::default() };
        self.slots.iter().for_each(|slot| slot.0.counters.add_to(&mut sum));
        sum
    }

    /// Wakes the sleepers spuriously, as the kernel may.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn wake_spuriously(self) {
        self.words.word.0.wake_spuriously();
    }
}

/// Releases the parties of a round when dropped.
struct Release<'a>(SharedState<'a>, Round);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let Release(shared, round) = *self;
        // Arrive in the next round on behalf of the parties that have left. They left before the
        // arrival that completed this round, so they are visible here. None of these arrivals is
        // the last of the next round as long as a party remains. They are counted by the ticket
        // counter, so it must count all arrivals of the next round: none of them has begun.
        let left = shared.words.left.0.parties.load(Relaxed);
        if left > 0 {
            shared.words.left.0.arrivals.fetch_add(left, Relaxed);
            shared.words.arrivals.0.fetch_add(left, AcqRel);
        }
        shared.words.word.0.complete(round, left > 0 && shared.tree.is_some(), shared.scope());
    }
}

/// The number of missing parties of which a check finds out whether they run. Each takes 0.6 us.
const MOST_CHECKED: usize = 4;

/// The end of a round.
pub(crate) struct RoundEnd<'a, 'm> {
    pub(crate) shared: SharedState<'a>,
    pub(crate) round: Round,
    /// The number of the waiting party. `None` for an anonymous one.
    pub(crate) number: Option<u32>,
    /// A buffer for the missing parties. `None` if they are unknown, as in an anonymous wait.
    pub(crate) missing: Option<&'m mut Vec<Missing>>,
    /// Whether the buffer has those that were missing earlier in this wait.
    pub(crate) is_listed: bool,
}

impl Awaited for RoundEnd<'_, '_> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.shared.has_completed(self.round)
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.shared.words.word.0.sleep(self.round, deadline, self.shared.scope());
    }

    fn missing(&mut self) -> &[Missing] {
        let (slots, round) = (self.shared.slots, self.round);
        let Some(missing) = &mut self.missing else { return &[] };
        // No party is missing again in this round, so later lists are parts of the first one.
        if std::mem::replace(&mut self.is_listed, true) {
            missing.retain(|missing| slots[missing.thread.index()].0.last_arrival.missing_from(round).is_some());
            return missing;
        }
        let (others, _) = slots.split_at(self.shared.parties() as usize);
        missing.clear();
        missing.extend((0..).zip(others).filter_map(|(number, slot)| {
            let last_seen = slot.0.last_arrival.missing_from(round)?;
            Some(Missing { thread: ThreadId(number), last_seen })
        }));
        missing
    }

    /// Checks the next missing parties after the waiting one, so that others check other ones. If
    /// all have arrived, they are released by the last one, which may call a completion before.
    fn running(&mut self) -> Running {
        let Some(number) = self.number else { return Running::Unknown };
        let (first, _) = self.shared.slots.split_at(self.shared.parties() as usize);
        let (earlier, later) = first.split_at(number as usize + 1);
        let is_awaited =
            |arrival: &LastArrival| arrival.missing_from(self.round).is_some() || arrival.is_leader_of(self.round);
        let awaited = later.iter().chain(earlier).filter(|slot| is_awaited(&slot.0.last_arrival));
        let mut running = None;
        for slot in awaited.take(MOST_CHECKED) {
            match sync::is_running(slot.0.clock.load(Relaxed)) {
                Some(true) => running = running.or(Some(Running::All)),
                Some(false) => return Running::NotAll,
                None => running = Some(Running::Unknown),
            }
        }
        running.unwrap_or(Running::Unknown)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::protocol::process_slot::Claimant;

    struct TestBarrier(BarrierWords, Vec<Padded<PartySlot>>);

    impl TestBarrier {
        /// A barrier whose parties belong to a process that never existed.
        fn of_dead_parties(parties: u32) -> TestBarrier {
            let barrier = TestBarrier(BarrierWords::new(), (0..=parties).map(|_| PartySlot::new()).collect());
            barrier.1.iter().take(parties as usize).for_each(|slot| assert!(slot.0.process.claim(Claimant::ended())));
            barrier
        }

        fn shared_state(&self) -> SharedState<'_> {
            SharedState { words: &self.0, slots: &self.1, tree: None, namespace: Some(sys::identity::pid_namespace()) }
        }
    }

    const FIRST: Round = Round(0);

    #[test]
    fn a_party_that_died_after_its_arrival_is_lost_in_the_next_round_only() {
        let barrier = TestBarrier::of_dead_parties(2);
        barrier.shared_state().arrive(Some(0), true, || ());
        assert_eq!(barrier.shared_state().lost(FIRST).map(|lost| lost.number), Some(1));
        barrier.shared_state().arrive(Some(1), true, || ());
        assert!(barrier.shared_state().has_completed(FIRST));
        assert_eq!(barrier.shared_state().lost(Round(1)).map(|lost| lost.number), Some(0));
    }

    #[test]
    fn the_last_party_may_die_before_it_releases_the_others() {
        let barrier = TestBarrier::of_dead_parties(2);
        for number in [0, 1] {
            barrier.0.arrivals.0.fetch_add(1, Relaxed);
            barrier.1[number].0.last_arrival.publish(FIRST, number == 1, policy::CpuId(0));
        }
        assert_eq!(barrier.shared_state().lost(FIRST).map(|lost| lost.number), Some(1));
    }

    #[test]
    fn the_last_party_may_die_before_it_publishes_its_arrival() {
        let barrier = TestBarrier::of_dead_parties(2);
        barrier.shared_state().arrive(Some(0), true, || ());
        barrier.0.arrivals.0.fetch_add(1, Relaxed);
        assert_eq!(barrier.shared_state().lost(FIRST).map(|lost| lost.number), Some(1));
    }

    #[test]
    fn a_round_waits_only_for_its_last_party_once_that_has_arrived() {
        let mut barrier = TestBarrier::of_dead_parties(3);
        barrier.1[1] = PartySlot::new();
        assert!(barrier.1[1].0.process.claim(Claimant::own(sys::identity::pid_namespace())));
        barrier.shared_state().arrive(Some(0), true, || ());
        // A party that was killed after its arrival, before it published it.
        barrier.0.arrivals.0.fetch_add(1, Relaxed);
        let mut during = None;
        barrier.shared_state().arrive(Some(1), true, || during = Some(barrier.shared_state().lost(FIRST)));
        assert_eq!(during, Some(None));
        assert_eq!(barrier.shared_state().lost(Round(1)).map(|lost| lost.number), Some(0));
    }

    #[test]
    fn a_check_during_a_completion_tells_whether_the_last_party_runs() {
        let barrier = TestBarrier::of_dead_parties(2);
        let shared = barrier.shared_state();
        let running = || RoundEnd { shared, round: FIRST, number: Some(0), missing: None, is_listed: false }.running();
        shared.arrive(Some(0), true, || ());
        shared.arrive(Some(1), true, || {
            assert_eq!(running(), Running::Unknown, "it has published no clock");
            shared.slot(Some(1)).publish_clock();
            assert_eq!(running(), Running::All, "it is this thread");
            let (end, is_over) = std::sync::mpsc::channel::<()>();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    shared.slot(Some(1)).publish_clock();
                    is_over.recv()
                });
                // Soon it is a thread that sleeps.
                while running() != Running::NotAll {}
                drop(end);
            });
        });
    }

    #[test]
    fn a_party_that_died_while_leaving_is_lost_and_one_that_has_left_is_not() {
        let barrier = TestBarrier::of_dead_parties(2);
        barrier.shared_state().arrive(Some(0), true, || ());
        let leaving = &barrier.1[1].0;
        leaving.last_arrival.leave();
        assert_eq!(barrier.shared_state().lost(FIRST).map(|lost| lost.number), Some(1));
        let slots = [PartySlot::new(), PartySlot::new(), PartySlot::new()];
        slots[1].0.last_arrival.leave();
        assert!(slots[1].0.process.claim(Claimant::ended().retired()));
        assert_eq!(SharedState { slots: &slots, ..barrier.shared_state() }.lost(FIRST), None);
    }

    #[test]
    fn no_party_is_lost_within_one_process() {
        let barrier = TestBarrier::of_dead_parties(2);
        assert_eq!(SharedState { namespace: None, ..barrier.shared_state() }.lost(FIRST), None);
    }
}
