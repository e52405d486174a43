//! The scheduler's data of a thread and of a queue.

use policy::{CpuId, Instant};

use super::balance::Balancing;
use super::timeline::{Links, Timeline};
use crate::kernels::domains::MOST_LEVELS;
use crate::kernels::nice::{self, NORMAL};

/// The end of time.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The kernel's `sched_entity`. Virtual times are nanoseconds, comparable within one queue only. At
/// nice 0, a virtual nanosecond is a real one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    pub(super) vruntime: i64,
    pub(super) deadline: i64,
    /// The length of its requests, in real time.
    pub(super) slice: i64,
    /// While it runs: the end of its protection.
    pub(super) protected_until: i64,
    /// While it is in no queue: its lag.
    pub(super) lag: i64,
    /// When it last ran; the end of time if it never has.
    pub(super) last_ran: Instant,
    /// While it waits: its place in the timeline.
    pub(super) links: Links,
    pub(super) cpu: CpuId,
    /// Its job, which is its group.
    pub(super) job: u32,
    /// Its weight in its queue.
    pub(super) weight: u32,
    /// The weight of its nice value.
    pub(super) own_weight: u32,
    /// Whether it is in the queue of its CPU and does not run.
    pub(super) is_waiting: bool,
    /// Whether it is in the queue although it is blocked.
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
        is_waiting: false,
        is_delayed: false,
        is_counted: false,
    };

    #[inline]
    pub(super) fn virtually(&self, nanos: i64) -> i64 {
        nice::virtual_time(nanos, self.weight)
    }

    fn weighted(&self) -> i128 {
        i128::from(self.vruntime) * i128::from(self.weight)
    }
}

/// The queue of one CPU: the kernel's `cfs_rq`, and the scheduling domain of that CPU.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) current: Option<u32>,
    /// The moment up to which the current thread's virtual time is right.
    pub(super) updated: Instant,
    pub(super) waiting: Timeline,
    /// How many of the waiting threads are blocked.
    pub(super) delayed: u32,
    /// The weight of the waiting and the current threads, and the sum of their virtual times by
    /// weight.
    pub(super) weight: i128,
    sum: i128,
    /// When it balances at each level of [domains](crate::kernels::domains), with threads and
    /// without.
    pub(super) balancing: [Balancing; MOST_LEVELS],
    pub(super) idle_balancing: [Balancing; MOST_LEVELS],
}

impl Queue {
    pub(super) fn new(balancing: [Balancing; MOST_LEVELS]) -> Queue {
        let (updated, waiting, idle_balancing) = (Instant::ZERO, Timeline::EMPTY, balancing);
        Queue { current: None, updated, waiting, delayed: 0, weight: 0, sum: 0, balancing, idle_balancing }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some())
    }

    /// How many threads wait for the CPU and could run.
    pub(super) fn ready(&self) -> usize {
        self.waiting.len() - self.delayed as usize
    }

    pub(super) fn add(&mut self, entity: &Entity) {
        self.weight += i128::from(entity.weight);
        self.sum += entity.weighted();
    }

    pub(super) fn remove(&mut self, entity: &Entity) {
        self.weight -= i128::from(entity.weight);
        self.sum -= entity.weighted();
    }

    /// A counted thread advances.
    pub(super) fn advance(&mut self, entity: &Entity, virtually: i64) {
        self.sum += i128::from(virtually) * i128::from(entity.weight);
    }

    /// The average virtual time, rounded down. Zero in an empty queue. A thread that is not beyond
    /// it is eligible, since virtual times are whole numbers.
    #[inline]
    pub(super) fn average(&self) -> i64 {
        match (i64::try_from(self.sum), i64::try_from(self.weight)) {
            (_, Ok(0)) => 0,
            // Division of 128 bits is slow.
            (Ok(sum), Ok(weight)) => sum.div_euclid(weight),
            _ => self.sum.div_euclid(self.weight) as i64,
        }
    }

    /// Whether a thread of this queue is not ahead of the average.
    pub(super) fn is_eligible(&self, entity: &Entity) -> bool {
        i128::from(entity.vruntime) * self.weight <= self.sum
    }
}

/// The lag with which to place a thread so that it has its own lag when it is counted. Counting it
/// moves the average towards it (`place_entity`).
pub(super) fn placed_lag(queue: &Queue, entity: &Entity) -> i64 {
    let (others, own) = (queue.weight, i128::from(entity.weight));
    if others == 0 { 0 } else { (i128::from(entity.lag) * (others + own) / others) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_is_small() {
        assert!(size_of::<Entity>() <= 112, "{}", size_of::<Entity>());
    }
}
