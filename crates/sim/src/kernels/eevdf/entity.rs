//! What the scheduler knows of a thread, and of one queue as a whole.

use policy::{CpuId, Instant};

use super::timeline::{Links, Timeline};
use crate::kernels::nice::NORMAL;

/// The end of time.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// What the scheduler knows of a thread: the kernel's `sched_entity`. Virtual times are nanoseconds, comparable within
/// one queue only; at nice 0 a virtual nanosecond is a real one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) vruntime: i64,
    pub(super) deadline: i64,
    /// The real time that it asks for at once.
    pub(super) slice: i64,
    /// While it runs: where its protection ends.
    pub(super) protected_until: i64,
    /// While it is in no queue: its lag.
    pub(super) lag: i64,
    /// When it last ran; the end of time where it never has.
    pub(super) last_ran: Instant,
    /// While it waits: its place.
    pub(super) links: Links,
    pub(super) cpu: CpuId,
    /// Its job, which says where it may run.
    pub(super) job: u32,
    /// What it weighs in its queue.
    pub(super) weight: u32,
    /// What its nice value weighs.
    pub(super) own_weight: u32,
    /// Whether it is in the queue of its CPU, not having the CPU.
    pub(super) waits: bool,
    /// Whether it is so although it is blocked.
    pub(super) is_delayed: bool,
    /// Whether it counts in its group.
    pub(super) is_counted: bool,
}

impl Entity {
    pub(super) const NEW: Entity = Entity {
        vruntime: 0,
        deadline: 0,
        slice: 0,
        protected_until: 0,
        lag: 0,
        last_ran: NEVER,
        links: Links::NONE,
        cpu: CpuId(0),
        job: 0,
        weight: NORMAL as u32,
        own_weight: NORMAL as u32,
        waits: false,
        is_delayed: false,
        is_counted: false,
    };

    /// A real time as a virtual one (`calc_delta_fair`).
    #[inline]
    pub(super) fn virtually(&self, nanos: i64) -> i64 {
        if self.weight == NORMAL as u32 {
            nanos
        } else {
            (i128::from(nanos) * i128::from(NORMAL) / i128::from(self.weight)) as i64
        }
    }

    fn weighted(&self) -> i128 {
        i128::from(self.vruntime) * i128::from(self.weight)
    }
}

/// The queue of one CPU: the kernel's `cfs_rq`.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) current: Option<u32>,
    /// The moment up to which the current thread's virtual time is right.
    pub(super) updated: Instant,
    pub(super) waiting: Timeline,
    /// How many of those are blocked.
    pub(super) delayed: u32,
    /// The weight of the waiting and the current thread, and the sum of their virtual times by weight.
    pub(super) weight: i128,
    sum: i128,
}

impl Queue {
    pub(super) const EMPTY: Queue =
        Queue { current: None, updated: Instant::ZERO, waiting: Timeline::EMPTY, delayed: 0, weight: 0, sum: 0 };

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some())
    }

    /// How many wait for the CPU and could run.
    pub(super) fn ready(&self) -> usize {
        self.waiting.len() - self.delayed as usize
    }

    /// Counts a thread in.
    pub(super) fn add(&mut self, entity: &Entity) {
        self.weight += i128::from(entity.weight);
        self.sum += entity.weighted();
    }

    /// Counts a thread out.
    pub(super) fn remove(&mut self, entity: &Entity) {
        self.weight -= i128::from(entity.weight);
        self.sum -= entity.weighted();
    }

    /// A thread that is counted has advanced.
    pub(super) fn advance(&mut self, entity: &Entity, virtually: i64) {
        self.sum += i128::from(virtually) * i128::from(entity.weight);
    }

    /// The average virtual time, rounded down; zero in an empty queue. Who is not beyond it is eligible: virtual times are whole.
    #[inline]
    pub(super) fn average(&self) -> i64 {
        match (i64::try_from(self.sum), i64::try_from(self.weight)) {
            (_, Ok(0)) => 0,
            // Long division takes its time.
            (Ok(sum), Ok(weight)) => sum.div_euclid(weight),
            _ => self.sum.div_euclid(self.weight) as i64,
        }
    }

    /// Whether a thread of this queue is not ahead of the average.
    pub(super) fn is_eligible(&self, entity: &Entity) -> bool {
        i128::from(entity.vruntime) * self.weight <= self.sum
    }
}

/// The lag to place a thread with, so that it has its own when it is counted: counting it in moves the average towards it
/// (`place_entity`).
pub(super) fn placed_lag(queue: &Queue, entity: &Entity) -> i64 {
    let (others, own) = (queue.weight, i128::from(entity.weight));
    if others == 0 { 0 } else { (i128::from(entity.lag) * (others + own) / others) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_takes_no_more_than_a_hundred_bytes_or_so() {
        assert!(size_of::<Entity>() <= 112, "{}", size_of::<Entity>());
    }
}
