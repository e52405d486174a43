//! The scheduler's data of a thread, and the queue of one CPU: the kernel's `cfs_rq`, and the parts
//! of its `rq` and scheduling domain that belong to the CPU.

use policy::{CpuId, Instant, ThreadId};

use super::timeline::{Place, Timeline};
use crate::kernels::domains::MOST_LEVELS;
use crate::kernels::nice;

/// The kernel's `sched_entity`. Virtual times are nanoseconds, comparable within one queue only. At
/// nice 0, a virtual nanosecond is a real one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) vruntime: i64,
    /// When it last ran on this CPU, if ever (`exec_start`).
    pub(super) last_ran: Option<Instant>,
    pub(super) cpu: CpuId,
    pub(super) weight: u32,
    pub(super) place: Place,
}

impl Entity {
    pub(super) fn new(weight: u64) -> Entity {
        Entity { vruntime: 0, last_ran: None, cpu: CpuId(0), weight: weight as u32, place: Place::AWAY }
    }

    #[inline]
    pub(super) fn virtually(&self, nanos: i64) -> i64 {
        nice::virtual_time(nanos, self.weight)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) timeline: Timeline,
    pub(super) current: Option<ThreadId>,
    /// When the current thread began to run, and its virtual time then.
    pub(super) began: Instant,
    pub(super) began_at: i64,
    /// The minimal virtual time, by which threads are placed. It never falls.
    pub(super) min_vruntime: i64,
    /// The number and the weight of its threads: the waiting ones, the current one, and the one
    /// that is being switched away from.
    pub(super) threads: usize,
    pub(super) weight: u64,
    pub(super) buddies: Buddies,
    pub(super) idle: Idleness,
    /// That of each level of [domains](crate::kernels::domains).
    pub(super) balancing: [Balancing; MOST_LEVELS],
}

/// Threads that the next pick considers besides the one with the least virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Buddies {
    /// The thread that has just preempted.
    pub(super) next: Option<ThreadId>,
    /// The thread that was preempted.
    pub(super) last: Option<ThreadId>,
    /// The thread that yielded.
    pub(super) skip: Option<ThreadId>,
}

impl Buddies {
    /// Removes a thread from the buddies (`clear_buddies`).
    pub(super) fn clear(&mut self, thread: ThreadId) {
        for buddy in [&mut self.next, &mut self.last, &mut self.skip] {
            if *buddy == Some(thread) {
                *buddy = None;
            }
        }
    }

    pub(super) fn is_hot(&self, thread: ThreadId) -> bool {
        [self.next, self.last].contains(&Some(thread))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Idleness {
    pub(super) since: Option<Instant>,
    /// The recent average (`avg_idle`), in nanoseconds.
    pub(super) average: i64,
}

impl Idleness {
    /// A thread wakes on this CPU. The average is at most `most`.
    pub(super) fn end(&mut self, now: Instant, most: i64) {
        if let Some(since) = self.since.take() {
            self.average = (self.average + (now.since(since).as_nanos() as i64 - self.average) / 8).min(most);
        }
    }
}

/// The balancing history of the CPU at a level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balancing {
    /// When it last tried.
    pub(super) last: Instant,
    /// Whether it waits twice as long because it found balance.
    pub(super) is_calm: bool,
    /// How often it has found an imbalance and no thread to take (`nr_balance_failed`).
    pub(super) failures: u32,
}

impl Queue {
    /// Updates the virtual time of the current thread (`update_curr`).
    #[inline]
    pub(super) fn update(&mut self, now: Instant, entities: &mut [Entity]) {
        let Some(current) = self.current else { return };
        let entity = &mut entities[current.index()];
        entity.vruntime = self.began_at + entity.virtually(now.since(self.began).as_nanos() as i64);
        entity.last_ran = Some(now);
        self.advance(entities);
    }

    /// Raises the minimal virtual time to that of the thread that is furthest behind
    /// (`update_min_vruntime`).
    pub(super) fn advance(&mut self, entities: &[Entity]) {
        let current = self.current.map(|current| entities[current.index()].vruntime);
        if let Some(least) = [current, self.timeline.least()].into_iter().flatten().min() {
            self.min_vruntime = self.min_vruntime.max(least);
        }
    }

    /// `thread` gets the CPU, and begins a new slice (`set_next_entity`).
    pub(super) fn begin(&mut self, thread: ThreadId, now: Instant, entities: &[Entity]) {
        self.current = Some(thread);
        (self.began, self.began_at) = (now, entities[thread.index()].vruntime);
    }
}
