//! The run queue of a CPU: two arrays of lists by priority, for active and for expired threads.

use policy::{CpuId, CpuSet, ThreadId};

use super::load::Balance;
use super::task::{IDLENESS, NONE, PRIORITIES, Task};

/// One array (`prio_array`): a list of threads for each priority. The links of the lists are in the
/// tasks.
#[derive(Clone, Debug)]
pub(super) struct Array {
    /// How many threads there are.
    pub(super) len: u32,
    /// The priorities that have threads.
    pub(super) bitmap: u64,
    first: [u32; PRIORITIES as usize],
    last: [u32; PRIORITIES as usize],
}

impl Array {
    const EMPTY: Array =
        Array { len: 0, bitmap: 0, first: [NONE; PRIORITIES as usize], last: [NONE; PRIORITIES as usize] };

    /// The first thread of the highest priority.
    fn first(&self) -> Option<ThreadId> {
        let priority = self.bitmap.trailing_zeros() as usize;
        self.first.get(priority).map(|thread| ThreadId(*thread))
    }

    /// The last thread of a priority, or [`NONE`].
    pub(super) fn last_of(&self, priority: usize) -> u32 {
        self.last[priority]
    }

    fn push(&mut self, thread: ThreadId, tasks: &mut [Task]) {
        let priority = usize::from(tasks[thread.index()].priority);
        let before = std::mem::replace(&mut self.last[priority], thread.0);
        (tasks[thread.index()].before, tasks[thread.index()].after) = (before, NONE);
        match tasks.get_mut(before as usize) {
            Some(neighbour) => neighbour.after = thread.0,
            None => self.first[priority] = thread.0,
        }
        self.bitmap |= 1 << priority;
        self.len += 1;
    }

    fn remove(&mut self, thread: ThreadId, tasks: &mut [Task]) {
        let Task { before, after, priority, .. } = tasks[thread.index()];
        let priority = usize::from(priority);
        match tasks.get_mut(before as usize) {
            Some(neighbour) => neighbour.after = after,
            None => self.first[priority] = after,
        }
        match tasks.get_mut(after as usize) {
            Some(neighbour) => neighbour.before = before,
            None => self.last[priority] = before,
        }
        if self.first[priority] == NONE {
            self.bitmap &= !(1 << priority);
        }
        self.len -= 1;
    }
}

/// The queue of one CPU (`runqueue`). The running thread is also in an array, as is a thread that
/// is being switched away from and could continue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    arrays: [Array; 2],
    /// The index of the active array.
    active: u8,
    /// The running thread, from its pick on. A thread that blocks stays current until the next
    /// pick.
    pub(super) current: Option<ThreadId>,
    /// The number of threads, including the running one (`nr_running`).
    pub(super) running: u32,
    /// The tick at which the first thread expired since the arrays were swapped.
    pub(super) expired_since: Option<u64>,
    /// The best static priority of the expired threads.
    pub(super) best_expired: u8,
    pub(super) balance: Balance,
}

impl Queue {
    pub(super) fn new(balance: Balance) -> Queue {
        Queue {
            arrays: [Array::EMPTY, Array::EMPTY],
            active: 0,
            current: None,
            running: 0,
            expired_since: None,
            best_expired: IDLENESS,
            balance,
        }
    }

    pub(super) fn active(&self) -> u8 {
        self.active
    }

    pub(super) fn expired(&self) -> u8 {
        1 - self.active
    }

    pub(super) fn array(&self, array: u8) -> &Array {
        &self.arrays[usize::from(array)]
    }

    /// Puts a thread at the end of its list (`enqueue_task`).
    pub(super) fn push(&mut self, thread: ThreadId, array: u8, tasks: &mut [Task]) {
        self.arrays[usize::from(array)].push(thread, tasks);
        tasks[thread.index()].array = Some(array);
    }

    /// Takes a thread out of its list, if it is in one (`dequeue_task`). Returns its array.
    pub(super) fn remove(&mut self, thread: ThreadId, tasks: &mut [Task]) -> Option<u8> {
        let array = tasks[thread.index()].array.take()?;
        self.arrays[usize::from(array)].remove(thread, tasks);
        Some(array)
    }

    /// The thread to run. Swaps the arrays if the active one is empty. The queue must not be empty.
    pub(super) fn first(&mut self) -> Option<ThreadId> {
        if self.array(self.active).len == 0 {
            self.active = self.expired();
            self.expired_since = None;
            self.best_expired = IDLENESS;
        }
        self.array(self.active).first()
    }

    /// The priority that a thread must beat to preempt the current one (`TASK_PREEMPTS_CURR`).
    pub(super) fn current_priority(&self, tasks: &[Task]) -> u8 {
        self.current.map_or(IDLENESS, |current| tasks[current.index()].priority)
    }
}

/// The CPUs without a running or waiting thread.
#[derive(Clone, Debug)]
pub(super) struct IdleCpus {
    words: Vec<u64>,
}

impl IdleCpus {
    pub(super) fn all(cpus: usize) -> IdleCpus {
        let mut idle = IdleCpus { words: vec![0; cpus.div_ceil(64)] };
        crate::cpu_ids(cpus).for_each(|cpu| idle.insert(cpu));
        idle
    }

    pub(super) fn insert(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }

    pub(super) fn remove(&mut self, cpu: CpuId) {
        self.words[cpu.index() / 64] &= !(1 << (cpu.index() % 64));
    }

    pub(super) fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.index() / 64] >> (cpu.index() % 64) & 1 == 1
    }

    /// The lowest idle CPU of a set. `None` allows all CPUs.
    pub(super) fn first_among(&self, allowed: Option<&CpuSet>) -> Option<CpuId> {
        let of = |index: usize| allowed.map_or(u64::MAX, |set| set.words().get(index).copied().unwrap_or(0));
        let words = self.words.iter().enumerate().map(|(index, word)| (index, word & of(index)));
        words.into_iter().find(|(_, word)| *word != 0).map(first_in)
    }

    /// The next idle CPU after another one, cyclically.
    pub(super) fn next_after(&self, cpu: CpuId) -> Option<CpuId> {
        let (at, bit) = (cpu.index() / 64, cpu.index() % 64);
        let beyond = self.words[at] & !(u64::MAX >> (63 - bit));
        let circle = (at + 1..self.words.len()).chain(0..=at).map(|index| (index, self.words[index]));
        std::iter::once((at, beyond)).chain(circle).find(|(_, word)| *word != 0).map(first_in)
    }
}

fn first_in((index, word): (usize, u64)) -> CpuId {
    CpuId(index as u32 * 64 + word.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cpus_are_visited_cyclically() {
        let mut idle = IdleCpus::all(130);
        (0..130).filter(|cpu| ![3, 64, 129].contains(cpu)).for_each(|cpu| idle.remove(CpuId(cpu)));
        let next = |cpu| idle.next_after(CpuId(cpu)).map(|cpu| cpu.0);
        assert_eq!([0, 3, 63, 64, 127, 129].map(next), [3, 64, 64, 129, 129, 3].map(Some));
        assert_eq!(idle.first_among(None), Some(CpuId(3)));
        let among = |cpus: &[u32]| idle.first_among(Some(&cpus.iter().map(|cpu| CpuId(*cpu)).collect()));
        assert_eq!((among(&[4, 64]), among(&[4])), (Some(CpuId(64)), None));
    }
}
