//! What the threads of a barrier share, wherever it lies: in one process or in memory that several have mapped.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use policy::waiting::{Missing, TeamState};
use policy::{Instant, ThreadId};

use crate::generation::{Round, Word};
use crate::member::{Place, TRUST};
use crate::outlast::Awaited;
use crate::sighting::Sighting;
use crate::statistics::{Counters, Statistics};
use crate::sync::{self, AtomicU64, Scope};

/// On a pair of cache lines of its own: adjacent lines are fetched together.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// The words that all members use.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Head {
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

impl Head {
    pub(crate) fn new() -> Head {
        Head {
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
pub(crate) struct Slot {
    /// Whose it is; always free where all members are of one process.
    pub(crate) place: Place,
    pub(crate) sighting: Sighting,
    pub(crate) counters: Counters,
}

impl Slot {
    pub(crate) fn new() -> Padded<Slot> {
        Padded(Slot { place: Place::free(), sighting: Sighting::none(), counters: Counters::new() })
    }
}

/// A barrier's memory as its members see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hall<'a> {
    pub(crate) head: &'a Head,
    /// One for each party by its number, and the last one for the anonymous: one more than there are parties.
    pub(crate) slots: &'a [Padded<Slot>],
    /// Where the members of several processes know each other by number; nothing within one process.
    pub(crate) namespace: Option<u64>,
}

/// An arrival: which one of all, and in what round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    pub(crate) round: Round,
    pub(crate) leads: bool,
}

/// A member that others wait for is gone, and with it the use of their barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("member {number} of the barrier is gone with process {pid}: remove the barrier and make a new one")]
pub struct Lost {
    /// The member's number; the lowest, if there are several.
    pub number: u32,
    /// Its process.
    pub pid: u32,
}

impl<'a> Hall<'a> {
    pub(crate) fn parties(self) -> u32 {
        self.slots.len().saturating_sub(1).max(1) as u32
    }

    /// How many parties are still awaited.
    pub(crate) fn threads(self) -> u32 {
        self.parties().saturating_sub(self.head.left.0.parties.load(Relaxed) as u32)
    }

    /// The slot of the party with this number, or that of the anonymous.
    pub(crate) fn slot(self, number: Option<u32>) -> &'a Slot {
        &self.slots[number.unwrap_or(self.parties()) as usize].0
    }

    /// Arrives. The last arriver of a round does `before_release` and then lets everybody go.
    #[inline]
    pub(crate) fn arrive(self, sighted: Option<u32>, before_release: impl FnOnce()) -> Ticket {
        let ticket = self.ticket_of(self.head.arrivals.0.fetch_add(1, AcqRel));
        if sighted.is_some() {
            self.slot(sighted).sighting.publish(ticket.round, ticket.leads, sync::current_cpu());
        }
        if ticket.leads {
            // Whatever becomes of what is done before, the others are let go.
            let _release = Release(self, ticket.round);
            before_release();
        }
        ticket
    }

    /// The ticket with this number, if it has been drawn.
    pub(crate) fn ticket(self, number: u64) -> Option<Ticket> {
        (number < self.head.arrivals.0.load(Relaxed)).then(|| self.ticket_of(number))
    }

    #[inline]
    fn ticket_of(self, number: u64) -> Ticket {
        let parties = u64::from(self.parties());
        Ticket { number, round: Round(number / parties), leads: number % parties == parties - 1 }
    }

    /// Arrives for the last time: the party is not awaited in later rounds.
    pub(crate) fn arrive_and_leave(self, number: Option<u32>, before_release: impl FnOnce()) -> Ticket {
        self.head.left.0.parties.fetch_add(1, Relaxed);
        if let Some(number) = number {
            self.slot(Some(number)).sighting.leave();
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
    pub(crate) fn lost(self, round: Round) -> Option<Lost> {
        let namespace = self.namespace?;
        let lost = |number: u32, slot: &Slot| Some(Lost { number, pid: slot.place.lost(namespace)? });
        let slots = || (0..).zip(self.slots.iter().map(|slot| &slot.0));
        if let Some((number, leader)) = slots().find(|(_, slot)| slot.sighting.leads(round)) {
            return lost(number, leader);
        }
        slots().find_map(|(number, slot)| {
            // Who was about to leave may have been killed before it arrived.
            let hinders = slot.sighting.missing_from(round).is_some() || slot.sighting.is_leaving();
            if hinders { lost(number, slot) } else { None }
        })
    }

    #[inline]
    pub(crate) fn has_completed(self, round: Round) -> bool {
        self.head.word.0.has_completed(round)
    }

    pub(crate) fn statistics(self) -> Statistics {
        let absent = self.head.left.0.arrivals.load(Relaxed);
        let waits = self.head.arrivals.0.load(Relaxed).saturating_sub(absent);
        let mut sum = Statistics { waits, ..Statistics::default() };
        self.slots.iter().for_each(|slot| slot.0.counters.add_to(&mut sum));
        sum
    }

    /// Wakes the sleepers for no reason, as the kernel may.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn wake_spuriously(self) {
        self.head.word.0.wake_spuriously();
    }
}

/// Lets the parties of a round go when it is dropped.
struct Release<'a>(Hall<'a>, Round);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let Release(hall, round) = *self;
        // Those that have left arrive in the next round at once. Whoever has left did so before the arrival that
        // completed this round, so it is seen here; and nobody can be last in the next round by this, as long as
        // somebody stays.
        let left = hall.head.left.0.parties.load(Relaxed);
        if left > 0 {
            hall.head.left.0.arrivals.fetch_add(left, Relaxed);
            hall.head.arrivals.0.fetch_add(left, AcqRel);
        }
        hall.head.word.0.complete(round, hall.scope());
    }
}

/// The end of a round, as something to wait for.
pub(crate) struct RoundEnd<'a, 'm> {
    pub(crate) hall: Hall<'a>,
    pub(crate) round: Round,
    /// Room for those who are missing; nothing where the wait is anonymous, and knows nobody.
    pub(crate) missing: Option<&'m mut Vec<Missing>>,
    /// When it is to be seen next whether all that are awaited live; nothing within one process.
    check: Option<Instant>,
}

impl<'a, 'm> RoundEnd<'a, 'm> {
    pub(crate) fn new(hall: Hall<'a>, round: Round, missing: Option<&'m mut Vec<Missing>>) -> RoundEnd<'a, 'm> {
        let check = hall.namespace.map(|_| sync::now() + TRUST);
        RoundEnd { hall, round, missing, check }
    }
}

impl Awaited for RoundEnd<'_, '_> {
    #[inline]
    fn has_come(&mut self) -> bool {
        self.hall.has_completed(self.round)
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.hall.head.word.0.sleep(self.round, deadline, self.hall.scope());
    }

    fn next_check(&self) -> Option<Instant> {
        self.check
    }

    fn can_come(&mut self, now: Instant) -> bool {
        if self.check.is_none_or(|check| now < check) {
            return true;
        }
        self.check = Some(now + TRUST);
        self.hall.lost(self.round).is_none()
    }

    fn missing(&mut self) -> &[Missing] {
        let Some(missing) = &mut self.missing else { return &[] };
        let (others, _) = self.hall.slots.split_at(self.hall.parties() as usize);
        missing.clear();
        missing.extend((0..).zip(others).filter_map(|(number, slot)| {
            let last_seen = slot.0.sighting.missing_from(self.round)?;
            Some(Missing { thread: ThreadId(number), last_seen })
        }));
        missing
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::member::Claimant;

    struct Room(Head, Vec<Padded<Slot>>);

    impl Room {
        /// Of members that all belong to a process that has never been.
        fn of_the_dead(members: u32) -> Room {
            let room = Room(Head::new(), (0..=members).map(|_| Slot::new()).collect());
            room.1.iter().take(members as usize).for_each(|slot| assert!(slot.0.place.take(Claimant::nobody())));
            room
        }

        fn hall(&self) -> Hall<'_> {
            Hall { head: &self.0, slots: &self.1, namespace: Some(sys::identity::pid_namespace()) }
        }
    }

    const FIRST: Round = Round(0);

    #[test]
    fn who_has_arrived_before_it_died_hinders_the_next_round_only() {
        let room = Room::of_the_dead(2);
        room.hall().arrive(Some(0), || ());
        assert_eq!(room.hall().lost(FIRST).map(|lost| lost.number), Some(1));
        room.hall().arrive(Some(1), || ());
        assert!(room.hall().has_completed(FIRST));
        assert_eq!(room.hall().lost(Round(1)).map(|lost| lost.number), Some(0));
    }

    #[test]
    fn the_last_arriver_may_have_died_before_it_let_the_others_go() {
        let room = Room::of_the_dead(2);
        for number in [0, 1] {
            room.0.arrivals.0.fetch_add(1, Relaxed);
            room.1[number].0.sighting.publish(FIRST, number == 1, policy::CpuId(0));
        }
        assert_eq!(room.hall().lost(FIRST).map(|lost| lost.number), Some(1));
    }

    #[test]
    fn the_last_arriver_may_have_died_before_it_said_that_it_was() {
        let room = Room::of_the_dead(2);
        room.hall().arrive(Some(0), || ());
        room.0.arrivals.0.fetch_add(1, Relaxed);
        assert_eq!(room.hall().lost(FIRST).map(|lost| lost.number), Some(1));
    }

    #[test]
    fn while_the_last_arriver_lives_nobody_else_hinders_its_round() {
        let mut room = Room::of_the_dead(3);
        room.1[1] = Slot::new();
        assert!(room.1[1].0.place.take(Claimant::own(sys::identity::pid_namespace())));
        room.hall().arrive(Some(0), || ());
        // Killed between its arrival and saying so.
        room.0.arrivals.0.fetch_add(1, Relaxed);
        let mut during = None;
        room.hall().arrive(Some(1), || during = Some(room.hall().lost(FIRST)));
        assert_eq!(during, Some(None));
        assert_eq!(room.hall().lost(Round(1)).map(|lost| lost.number), Some(0));
    }

    #[test]
    fn who_died_while_it_left_is_gone_and_who_has_left_is_not() {
        let room = Room::of_the_dead(2);
        room.hall().arrive(Some(0), || ());
        let leaving = &room.1[1].0;
        leaving.sighting.leave();
        assert_eq!(room.hall().lost(FIRST).map(|lost| lost.number), Some(1));
        let slots = [Slot::new(), Slot::new(), Slot::new()];
        slots[1].0.sighting.leave();
        assert!(slots[1].0.place.take(Claimant::nobody().retired()));
        assert_eq!(Hall { slots: &slots, ..room.hall() }.lost(FIRST), None);
    }

    #[test]
    fn within_one_process_nobody_is_lost() {
        let room = Room::of_the_dead(2);
        assert_eq!(Hall { namespace: None, ..room.hall() }.lost(FIRST), None);
    }
}
