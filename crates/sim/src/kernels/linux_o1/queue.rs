//! The run queue of a CPU: two arrays of lists by priority, for active and for expired threads.

use policy::ThreadId;

use super::balance::Balance;
use super::task::{IDLENESS, NONE, PRIORITIES, Task};

/// One array (`prio_array`): a list of threads for each priority. The links of the lists are in the
/// tasks.
#[derive(Clone, Debug)]
pub(super) struct Array {
    /// The priorities that have threads.
    pub(super) bitmap: u64,
    first: [u32; PRIORITIES as usize],
    /// The last thread of each priority, or [`NONE`].
    pub(super) last: [u32; PRIORITIES as usize],
}

impl Array {
    const EMPTY: Array = Array { bitmap: 0, first: [NONE; PRIORITIES as usize], last: [NONE; PRIORITIES as usize] };

    fn first(&self) -> Option<ThreadId> {
        let priority = self.bitmap.trailing_zeros() as usize;
        self.first.get(priority).map(|thread| ThreadId(*thread))
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
    }
}

/// The queue of one CPU (`runqueue`). The running thread is also in an array, as is a thread that
/// is being switched away from and could continue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    arrays: [Array; 2],
    /// The index of the active array.
    pub(super) active: u8,
    /// The running thread, until the next pick even if it blocks.
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
        let (arrays, best_expired) = ([Array::EMPTY, Array::EMPTY], IDLENESS);
        Queue { arrays, active: 0, current: None, running: 0, expired_since: None, best_expired, balance }
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
        if self.array(self.active).bitmap == 0 {
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
