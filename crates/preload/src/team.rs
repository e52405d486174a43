//! The barrier of an OpenMP team, and what is to be known before its threads may wait there instead of at the original one.
//!
//! # Tasks
//!
//! At an OpenMP barrier the team's tasks are executed: none passes it before they are done. A barrier of ours knows nothing of tasks. So where
//! a program is seen to make tasks ([`Findings`](crate::findings::Findings)), all its barriers are the original ones, in which those who wait execute
//! them. But a library that is loaded in the middle of a parallel region may make tasks in this very team, some of whose threads may wait
//! at our barrier already. For that case a thread that makes a task says so first ([`OmpTeam::defers`]). Whoever arrives last at
//! our barrier reads whether anybody has, before the others are let go, and the answer holds for all of them: if so, all wait at the original too, next,
//! and the tasks are executed there. All have made what tasks they make before their arrival, so the last to arrive sees it;
//! and a thread that makes one later does not change the answer before all have read it, because that is written anew only when all have arrived for the
//! next round. So all agree.
//!
//! # Cancellation
//!
//! What cancels a region is in the text of that region. So what can cancel it is loaded when the region begins, and a program or library
//! that has such regions is found before: its barriers are the original ones, from which cancelled threads can be taken.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use counters::WaitKind;
use wait::Barrier;
use wait::seat::{Seat, Seats};

use crate::settings::Settings;

/// The most threads that a team with a barrier of ours has: each takes some memory.
const MOST_THREADS: u32 = 4096;

/// A team, from the beginning to the end of its parallel region.
pub(crate) struct OmpTeam {
    /// Made when the first thread comes to a barrier; nothing for a team of one.
    seats: OnceLock<Option<Arc<Seats>>>,
    /// Barriers of earlier teams, for this one to use again.
    spares: Mutex<Vec<Arc<Seats>>>,
    /// A thread of the team has made a task.
    defers: AtomicBool,
    /// Whether all are to wait at the original too, in this round.
    again: AtomicBool,
}

/// How a thread has met the others of its team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// As it should.
    Complete,
    /// All of them are to wait at the original next.
    TasksPending,
}

impl OmpTeam {
    pub(crate) const fn new(spares: Vec<Arc<Seats>>) -> OmpTeam {
        OmpTeam {
            seats: OnceLock::new(),
            spares: Mutex::new(spares),
            defers: AtomicBool::new(false),
            again: AtomicBool::new(false),
        }
    }

    /// The barrier, which all its threads have the same; nothing where they are to use the original.
    pub(crate) fn seats(&self, settings: &Settings, size: impl FnOnce() -> u32) -> Option<&Arc<Seats>> {
        let made = self.seats.get_or_init(|| {
            let size = size();
            if !(2..=MOST_THREADS).contains(&size) {
                return None;
            }
            let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
            let spare = spares.iter().rposition(|spare| spare.barrier().parties() == size);
            Some(match spare {
                Some(spare) => spares.remove(spare),
                None => Arc::new(Seats::new(Barrier::with(size, settings.team_waiting()))),
            })
        });
        made.as_ref()
    }

    /// The next team has the same barrier. Nobody is in either.
    pub(crate) fn begin_again(&self) {
        self.defers.store(false, Relaxed);
        self.again.store(false, Relaxed);
    }

    /// A thread of the team makes a task.
    pub(crate) fn note_task(&self) {
        self.defers.store(true, Relaxed);
    }

    /// Waits until all threads of the team have come.
    pub(crate) fn meet(&self, seats: &Arc<Seats>, settings: &Settings, subject: WaitKind) -> Meeting {
        let tally = settings.tally(subject);
        tally.add_waits(1);
        Seat::of(seats).with(|party, _| {
            party.count_at(&tally.counters);
            let arrival = party.arrive_and(|| self.again.store(self.defers.load(Relaxed), Relaxed));
            if !cfg!(rowlock_canary = "a-team-does-not-wait") {
                party.complete(arrival);
            }
        });
        if self.again.load(Relaxed) { Meeting::TasksPending } else { Meeting::Complete }
    }

    /// The team's barrier and the others, when nobody will come any more.
    pub(crate) fn end(self) -> Vec<Arc<Seats>> {
        /// How many are worth keeping.
        const MOST_SPARES: usize = 8;
        let mut spares = self.spares.into_inner().unwrap_or_else(PoisonError::into_inner);
        spares.extend(self.seats.into_inner().flatten());
        while spares.len() > MOST_SPARES {
            spares.remove(0).close();
        }
        spares
    }
}
