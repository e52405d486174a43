//! The barrier of an OpenMP team, and the conditions under which it may replace the real one.
//!
//! # Tasks
//!
//! At an OpenMP barrier the team executes its tasks, and no thread passes before they are complete.
//! Our barrier does not execute tasks. So if a program is known to create tasks
//! ([`Findings`](crate::findings::Findings)), all its barriers are the real ones, in which waiting
//! threads execute them. But a library that is loaded during a parallel region may create tasks in
//! this very team, some of whose threads may already wait at our barrier. So a thread records that
//! it creates a task before it does so ([`OmpTeam::note_task`]). The last thread to arrive at our
//! barrier checks for such a record before it releases the others, and the result holds for all of
//! them: if there is one, all wait at the real barrier next, and execute the tasks there. All
//! threads have created their tasks before their arrival, so the last one sees the record. A thread
//! that creates a task later does not change the result before all have read it, since it is only
//! written when all have arrived for the next round. So all threads agree.
//!
//! # Cancellation
//!
//! A region is cancelled by code of that region, which is loaded when the region begins. So a
//! program or library with such regions is detected before, and its barriers are the real ones,
//! from which cancelled threads can be removed.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use counters::WaitKind;
use wait::Barrier;
use wait::thread_slots::{ThreadSlot, ThreadSlots};

use crate::settings::Settings;

/// The maximum number of threads of a team with a barrier of ours: each uses memory.
const MOST_THREADS: u32 = 4096;

/// A team, and later ones for which the same memory is used.
pub(crate) struct OmpTeam {
    /// Created when the first thread arrives at a barrier; `None` for a team of one.
    slots: OnceLock<Option<Arc<ThreadSlots>>>,
    /// Barriers of earlier teams, to be reused.
    spares: Mutex<Vec<Arc<ThreadSlots>>>,
    /// Whether a thread of the team has created a task.
    has_tasks: AtomicBool,
    /// Whether all threads must wait at the real barrier too, in this round.
    tasks_pending: AtomicBool,
}

/// The result of a meeting of the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// The meeting is complete.
    Complete,
    /// All threads must wait at the real barrier next.
    TasksPending,
}

impl OmpTeam {
    pub(crate) const fn new() -> OmpTeam {
        OmpTeam {
            slots: OnceLock::new(),
            spares: Mutex::new(Vec::new()),
            has_tasks: AtomicBool::new(false),
            tasks_pending: AtomicBool::new(false),
        }
    }

    /// The barrier, which is the same for all threads; `None` if they must use the real one.
    pub(crate) fn slots(&self, settings: &Settings, size: impl FnOnce() -> u32) -> Option<&Arc<ThreadSlots>> {
        let made = self.slots.get_or_init(|| {
            let size = size();
            if !(2..=MOST_THREADS).contains(&size) {
                return None;
            }
            let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
            let spare = spares.iter().rposition(|spare| spare.barrier().parties() == size);
            Some(match spare {
                Some(spare) => spares.remove(spare),
                None => Arc::new(ThreadSlots::new(Barrier::with(size, settings.team_waiting()))),
            })
        });
        made.as_ref()
    }

    /// Prepares the barrier for the next team. No thread is in either.
    pub(crate) fn begin_again(&self) {
        self.has_tasks.store(false, Relaxed);
        self.tasks_pending.store(false, Relaxed);
    }

    /// Records that a thread of the team creates a task.
    pub(crate) fn note_task(&self) {
        self.has_tasks.store(true, Relaxed);
    }

    /// Waits until all threads of the team have arrived.
    pub(crate) fn meet(&self, slots: &Arc<ThreadSlots>, settings: &Settings, kind: WaitKind) -> Meeting {
        let counts = settings.count_wait(kind);
        ThreadSlot::of_current_thread(slots).with(|party, _| {
            party.count_in(&counts.counters);
            let arrival = party.arrive_and(|| self.tasks_pending.store(self.has_tasks.load(Relaxed), Relaxed));
            if !cfg!(rowlock_canary = "a-team-does-not-wait") {
                party.complete(arrival);
            }
        });
        if self.tasks_pending.load(Relaxed) { Meeting::TasksPending } else { Meeting::Complete }
    }

    /// Prepares for the next team, which may have another number of threads. No thread is in
    /// either. Writes nothing if this team has left no trace: other CPUs keep their copies then.
    pub(crate) fn end(&mut self) {
        /// The maximum number of barriers worth keeping.
        const MOST_SPARES: usize = 8;
        if self.slots.get().is_some() {
            let spares = self.spares.get_mut().unwrap_or_else(PoisonError::into_inner);
            spares.extend(self.slots.take().flatten());
            while spares.len() > MOST_SPARES {
                spares.remove(0).close();
            }
        }
        if *self.has_tasks.get_mut() || *self.tasks_pending.get_mut() {
            self.begin_again();
        }
    }
}
