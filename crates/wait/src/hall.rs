//! What the threads of a barrier share, wherever it lies: in one process or in memory that several have mapped.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use policy::waiting::{Missing, TeamState};
use policy::{Instant, ThreadId};

use crate::generation::{Round, Word};
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
    /// How many parties have left the team.
    left: Padded<AtomicU64>,
}

impl Head {
    pub(crate) fn new() -> Head {
        Head {
            arrivals: Padded(AtomicU64::new(0)),
            word: Padded(Word::new()),
            state: Padded(AtomicU64::new(TeamState::default().0)),
            left: Padded(AtomicU64::new(0)),
        }
    }
}

/// What a member of the team writes down: it alone writes, others read now and then.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) sighting: Sighting,
    pub(crate) counters: Counters,
}

impl Slot {
    pub(crate) fn new() -> Padded<Slot> {
        Padded(Slot { sighting: Sighting::none(), counters: Counters::new() })
    }
}

/// A barrier's memory as its members see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hall<'a> {
    pub(crate) head: &'a Head,
    /// One for each party by its number, and the last one for the anonymous: one more than there are parties.
    pub(crate) slots: &'a [Padded<Slot>],
    pub(crate) scope: Scope,
}

/// An arrival: which one of all, and in what round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) number: u64,
    pub(crate) round: Round,
    pub(crate) leads: bool,
}

impl<'a> Hall<'a> {
    pub(crate) fn parties(self) -> u32 {
        self.slots.len().saturating_sub(1).max(1) as u32
    }

    /// How many parties are still awaited.
    pub(crate) fn threads(self) -> u32 {
        self.parties().saturating_sub(self.head.left.0.load(Relaxed) as u32)
    }

    /// The slot of the party with this number, or that of the anonymous.
    pub(crate) fn slot(self, number: Option<u32>) -> &'a Slot {
        &self.slots[number.unwrap_or(self.parties()) as usize].0
    }

    /// Arrives. The last arriver of a round does `before_release` and then lets everybody go.
    #[inline]
    pub(crate) fn arrive(self, sighted: Option<u32>, before_release: impl FnOnce()) -> Ticket {
        let parties = u64::from(self.parties());
        let number = self.head.arrivals.0.fetch_add(1, AcqRel);
        let round = Round(number / parties);
        if sighted.is_some() {
            self.slot(sighted).sighting.publish(round, sync::current_cpu());
        }
        let leads = number % parties == parties - 1;
        if leads {
            // Whatever becomes of what is done before, the others are let go.
            let _release = Release(self, round);
            before_release();
        }
        Ticket { number, round, leads }
    }

    /// Arrives for the last time: the party is not awaited in later rounds.
    pub(crate) fn arrive_and_leave(self, number: Option<u32>, before_release: impl FnOnce()) -> Ticket {
        self.head.left.0.fetch_add(1, Relaxed);
        if let Some(number) = number {
            self.slot(Some(number)).sighting.leave();
        }
        self.arrive(None, before_release)
    }

    #[inline]
    pub(crate) fn has_completed(self, round: Round) -> bool {
        self.head.word.0.has_completed(round)
    }

    pub(crate) fn statistics(self) -> Statistics {
        let mut sum = Statistics { waits: self.head.arrivals.0.load(Relaxed), ..Statistics::default() };
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
        let left = hall.head.left.0.load(Relaxed);
        if left > 0 {
            hall.head.arrivals.0.fetch_add(left, AcqRel);
        }
        hall.head.word.0.complete(round, hall.scope);
    }
}

/// The end of a round, as something to wait for.
pub(crate) struct RoundEnd<'a, 'm> {
    pub(crate) hall: Hall<'a>,
    pub(crate) round: Round,
    /// Room for those who are missing; nothing where the wait is anonymous, and knows nobody.
    pub(crate) missing: Option<&'m mut Vec<Missing>>,
}

impl Awaited for RoundEnd<'_, '_> {
    #[inline]
    fn has_come(&mut self) -> bool {
        self.hall.has_completed(self.round)
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.hall.head.word.0.sleep(self.round, deadline, self.hall.scope);
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
