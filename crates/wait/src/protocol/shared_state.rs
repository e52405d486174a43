//! What the threads of a barrier share, wherever it lies: in one process or in memory that several have mapped.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use policy::waiting::{Missing, TeamState};
use policy::{Instant, ThreadId};

use crate::protocol::generation::{Round, Word};
use crate::protocol::last_arrival::LastArrival;
use crate::protocol::process_slot::{LIVENESS_INTERVAL, ProcessSlot};
use crate::protocol::wait_loop::Awaited;
use crate::statistics::{Counters, Statistics};
use crate::sync::{self, AtomicU64, Scope};

/// On a pair of cache lines of its own: adjacent lines are fetched together.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// The words that all members use.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct BarrierWords {
    /// All arrivals since the beginning: the ticket counter.
    arrivals: Padded<AtomicU64>,
    word: Padded<Word>,
    /// The rule's [`TeamState`].
    pub(crate) state: Padded<AtomicU64>,
    left: Padded<Left>,
}

/// What those who have left the team leave behind.
#[derive(Debug)]
#[repr(C)]
struct Left {
    /// How many they are.
    parties: AtomicU64,
    /// How many arrivals there have been in their stead.
    arrivals: AtomicU64,
}

impl BarrierWords {
    pub(crate) fn new() -> BarrierWords {
        BarrierWords {
            arrivals: Padded(AtomicU64::new(0)),
            word: Padded(Word::new()),
            state: Padded(AtomicU64::new(TeamState::default().0)),
            left: Padded(Left { parties: AtomicU64::new(0), arrivals: AtomicU64::new(0) }),
        }
    }
}

/// What a member of the team writes down: it alone writes, others read now and then.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PartySlot {
    /// Whose it is; always free where all members are of one process.
    pub(crate) process: ProcessSlot,
    pub(crate) last_arrival: LastArrival,
    pub(crate) counters: Counters,
}

impl PartySlot {
    pub(crate) fn new() -> Padded<PartySlot> {
        Padded(PartySlot { process: ProcessSlot::free(), last_arrival: LastArrival::none(), counters: Counters::new() })
    }
}

/// A barrier's memory as its members see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedState<'a> {
    pub(crate) words: &'a BarrierWords,
    /// One for each party by its number, and the last one for the anonymous: one more than there are parties.
    pub(crate) slots: &'a [Padded<PartySlot>],
    /// Where the members of several processes know each other by number; nothing within one process.
    pub(crate) namespace: Option<u64>,
}

/// An arrival: which one of all, and in what round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    pub(crate) round: Round,
    pub(crate) is_leader: bool,
}

/// A member that others wait for is gone, and with it the use of their barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("member {number} of the barrier is gone with process {pid}: remove the barrier and make a new one")]
pub struct LostParty {
    /// The member's number; the lowest, if there are several.
    pub number: u32,
    /// Its process.
    pub pid: u32,
}

impl<'a> SharedState<'a> {
    pub(crate) fn parties(self) -> u32 {
        self.slots.len().saturating_sub(1).max(1) as u32
    }

    /// How many parties are still awaited.
    pub(crate) fn threads(self) -> u32 {
        self.parties().saturating_sub(self.words.left.0.parties.load(Relaxed) as u32)
    }

    /// The slot of the party with this number, or that of the anonymous.
    pub(crate) fn slot(self, number: Option<u32>) -> &'a PartySlot {
        &self.slots[number.unwrap_or(self.parties()) as usize].0
    }

    /// Arrives. The last arriver of a round does `before_release` and then lets everybody go.
    #[inline]
    pub(crate) fn arrive(self, publish_as: Option<u32>, before_release: impl FnOnce()) -> Ticket {
        let ticket = self.ticket_of(self.words.arrivals.0.fetch_add(1, AcqRel));
        if publish_as.is_some() {
            self.slot(publish_as).last_arrival.publish(ticket.round, ticket.is_leader, sync::current_cpu());
        }
        if ticket.is_leader {
            // Whatever becomes of what is done before, the others are let go.
            let _release = Release(self, ticket.round);
            before_release();
        }
        ticket
    }

    /// The ticket with this number, if it has been drawn.
    pub(crate) fn ticket(self, number: u64) -> Option<Ticket> {
        (number < self.words.arrivals.0.load(Relaxed)).then(|| self.ticket_of(number))
    }

    #[inline]
    fn ticket_of(self, number: u64) -> Ticket {
        let parties = u64::from(self.parties());
        Ticket { number, round: Round(number / parties), is_leader: number % parties == parties - 1 }
    }

    /// Arrives for the last time: the party is not awaited in later rounds.
    pub(crate) fn arrive_and_leave(self, number: Option<u32>, before_release: impl FnOnce()) -> Ticket {
        self.words.left.0.parties.fetch_add(1, Relaxed);
        if let Some(number) = number {
            self.slot(Some(number)).last_arrival.leave();
        }
        self.arrive(None, before_release)
    }

    pub(crate) fn scope(self) -> Scope {
        if self.namespace.is_some() { Scope::Shared } else { Scope::Process }
    }

    /// Whose death keeps `round`, which is not complete, from being so. Nobody within one process.
    ///
    /// If a member has said that it was the last to arrive, all have arrived, and only that one is awaited: it lets the others
    /// go. Who drew the last ticket and was killed before it could say so is not seen to have arrived, and counts as one that has not.
    pub(crate) fn lost(self, round: Round) -> Option<LostParty> {
        let namespace = self.namespace?;
        let lost = |number: u32, slot: &PartySlot| Some(LostParty { number, pid: slot.process.lost_pid(namespace)? });
        let slots = || (0..).zip(self.slots.iter().map(|slot| &slot.0));
        if let Some((number, leader)) = slots().find(|(_, slot)| slot.last_arrival.is_leader_of(round)) {
            return lost(number, leader);
        }
        slots().find_map(|(number, slot)| {
            // Who was about to leave may have been killed before it arrived.
            let hinders = slot.last_arrival.missing_from(round).is_some() || slot.last_arrival.is_leaving();
            if hinders { lost(number, slot) } else { None }
        })
    }

    #[inline]
    pub(crate) fn has_completed(self, round: Round) -> bool {
        self.words.word.0.has_completed(round)
    }

    pub(crate) fn statistics(self) -> Statistics {
        let absent = self.words.left.0.arrivals.load(Relaxed);
        let waits = self.words.arrivals.0.load(Relaxed).saturating_sub(absent);
        let mut sum = Statistics { waits, ..Statistics::default() };
        self.slots.iter().for_each(|slot| slot.0.counters.add_to(&mut sum));
        sum
    }

    /// Wakes the sleepers for no reason, as the kernel may.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn wake_spuriously(self) {
        self.words.word.0.wake_spuriously();
    }
}

/// Lets the parties of a round go when it is dropped.
struct Release<'a>(SharedState<'a>, Round);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let Release(shared, round) = *self;
        // Those that have left arrive in the next round at once. Whoever has left did so before the arrival that
        // completed this round, so it is seen here; and nobody can be last in the next round by this, as long as
        // somebody stays.
        let left = shared.words.left.0.parties.load(Relaxed);
        if left > 0 {
            shared.words.left.0.arrivals.fetch_add(left, Relaxed);
            shared.words.arrivals.0.fetch_add(left, AcqRel);
        }
        shared.words.word.0.complete(round, shared.scope());
    }
}

/// The end of a round, as something to wait for.
pub(crate) struct RoundEnd<'a, 'm> {
    pub(crate) shared: SharedState<'a>,
    pub(crate) round: Round,
    /// TestBarrier for those who are missing; nothing where the wait is anonymous, and knows nobody.
    pub(crate) missing: Option<&'m mut Vec<Missing>>,
    /// When it is to be seen next whether all that are awaited live; nothing within one process.
    check: Option<Instant>,
}

impl<'a, 'm> RoundEnd<'a, 'm> {
    pub(crate) fn new(
        shared: SharedState<'a>,
        round: Round,
        missing: Option<&'m mut Vec<Missing>>,
    ) -> RoundEnd<'a, 'm> {
        let check = shared.namespace.map(|_| sync::now() + LIVENESS_INTERVAL);
        RoundEnd { shared, round, missing, check }
    }
}

impl Awaited for RoundEnd<'_, '_> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.shared.has_completed(self.round)
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.shared.words.word.0.sleep(self.round, deadline, self.shared.scope());
    }

    fn next_liveness_check(&self) -> Option<Instant> {
        self.check
    }

    fn check_liveness(&mut self, now: Instant) -> bool {
        if self.check.is_none_or(|check| now < check) {
            return true;
        }
        self.check = Some(now + LIVENESS_INTERVAL);
        self.shared.lost(self.round).is_none()
    }

    fn missing(&mut self) -> &[Missing] {
        let Some(missing) = &mut self.missing else { return &[] };
        let (others, _) = self.shared.slots.split_at(self.shared.parties() as usize);
        missing.clear();
        missing.extend((0..).zip(others).filter_map(|(number, slot)| {
            let last_seen = slot.0.last_arrival.missing_from(self.round)?;
            Some(Missing { thread: ThreadId(number), last_seen })
        }));
        missing
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::protocol::process_slot::Claimant;

    struct TestBarrier(BarrierWords, Vec<Padded<PartySlot>>);

    impl TestBarrier {
        /// Of members that all belong to a process that has never been.
        fn of_the_dead(members: u32) -> TestBarrier {
            let barrier = TestBarrier(BarrierWords::new(), (0..=members).map(|_| PartySlot::new()).collect());
            barrier.1.iter().take(members as usize).for_each(|slot| assert!(slot.0.process.claim(Claimant::nobody())));
            barrier
        }

        fn shared_state(&self) -> SharedState<'_> {
            SharedState { words: &self.0, slots: &self.1, namespace: Some(sys::identity::pid_namespace()) }
        }
    }

    const FIRST: Round = Round(0);

    #[test]
    fn who_has_arrived_before_it_died_hinders_the_next_round_only() {
        let barrier = TestBarrier::of_the_dead(2);
        barrier.shared_state().arrive(Some(0), || ());
        assert_eq!(barrier.shared_state().lost(FIRST).map(|lost| lost.number), Some(1));
        barrier.shared_state().arrive(Some(1), || ());
        assert!(barrier.shared_state().has_completed(FIRST));
        assert_eq!(barrier.shared_state().lost(Round(1)).map(|lost| lost.number), Some(0));
    }

    #[test]
    fn the_last_arriver_may_have_died_before_it_let_the_others_go() {
        let barrier = TestBarrier::of_the_dead(2);
        for number in [0, 1] {
            barrier.0.arrivals.0.fetch_add(1, Relaxed);
            barrier.1[number].0.last_arrival.publish(FIRST, number == 1, policy::CpuId(0));
        }
        assert_eq!(barrier.shared_state().lost(FIRST).map(|lost| lost.number), Some(1));
    }

    #[test]
    fn the_last_arriver_may_have_died_before_it_said_that_it_was() {
        let barrier = TestBarrier::of_the_dead(2);
        barrier.shared_state().arrive(Some(0), || ());
        barrier.0.arrivals.0.fetch_add(1, Relaxed);
        assert_eq!(barrier.shared_state().lost(FIRST).map(|lost| lost.number), Some(1));
    }

    #[test]
    fn while_the_last_arriver_lives_nobody_else_hinders_its_round() {
        let mut barrier = TestBarrier::of_the_dead(3);
        barrier.1[1] = PartySlot::new();
        assert!(barrier.1[1].0.process.claim(Claimant::own(sys::identity::pid_namespace())));
        barrier.shared_state().arrive(Some(0), || ());
        // Killed between its arrival and saying so.
        barrier.0.arrivals.0.fetch_add(1, Relaxed);
        let mut during = None;
        barrier.shared_state().arrive(Some(1), || during = Some(barrier.shared_state().lost(FIRST)));
        assert_eq!(during, Some(None));
        assert_eq!(barrier.shared_state().lost(Round(1)).map(|lost| lost.number), Some(0));
    }

    #[test]
    fn who_died_while_it_left_is_gone_and_who_has_left_is_not() {
        let barrier = TestBarrier::of_the_dead(2);
        barrier.shared_state().arrive(Some(0), || ());
        let leaving = &barrier.1[1].0;
        leaving.last_arrival.leave();
        assert_eq!(barrier.shared_state().lost(FIRST).map(|lost| lost.number), Some(1));
        let slots = [PartySlot::new(), PartySlot::new(), PartySlot::new()];
        slots[1].0.last_arrival.leave();
        assert!(slots[1].0.process.claim(Claimant::nobody().retired()));
        assert_eq!(SharedState { slots: &slots, ..barrier.shared_state() }.lost(FIRST), None);
    }

    #[test]
    fn within_one_process_nobody_is_lost() {
        let barrier = TestBarrier::of_the_dead(2);
        assert_eq!(SharedState { namespace: None, ..barrier.shared_state() }.lost(FIRST), None);
    }
}
