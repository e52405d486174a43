#![doc = include_str!("queue.md")]

use std::collections::VecDeque;

use wait::{Mutex, Waiting};

use crate::buffer::Buffer;

/// The element of queues. It is boxed, so that queues move only its address.
#[derive(Debug)]
pub(crate) struct QueuedBuffer<T> {
    /// Its number in its pipeline, assigned when the first stage takes it.
    pub(crate) number: u64,
    /// Whether it is the last buffer of the stream.
    pub(crate) is_last: bool,
    pub(crate) buffer: Buffer<T>,
}

pub(crate) type QueuedBuffers<T> = VecDeque<Box<QueuedBuffer<T>>>;

impl<T> QueuedBuffer<T> {
    /// A free buffer, without a number yet.
    pub(crate) fn free(mut buffer: Buffer<T>) -> Box<QueuedBuffer<T>> {
        buffer.clear();
        Box::new(QueuedBuffer { number: 0, is_last: false, buffer })
    }
}

/// The buffers before a stage group. `S` is a taker that waits here.
pub(crate) struct Queue<T, S> {
    state: Mutex<State<T, S>>,
}

struct State<T, S> {
    entries: QueuedBuffers<T>,
    sleepers: Vec<S>,
    /// The number of buffers taken so far.
    taken: u64,
    /// The number that will be taken in all, or `u64::MAX` if unknown.
    limit: u64,
    /// Whether buffers get their numbers here.
    assigns_numbers: bool,
    is_closed: bool,
}

/// The result of taking buffers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TakeResult<S> {
    /// The place of the first buffer in the order of taking, and how many are left in the queue.
    Buffers { first: u64, left: usize, taker: S },
    /// No buffer: the taker is now a sleeper.
    Sleeping,
    /// No buffer, now or later.
    Closed(S),
}

impl<T, S> Queue<T, S> {
    /// An empty queue, for groups other than the first of a pipeline.
    pub(crate) fn new(waiting: Waiting) -> Queue<T, S> {
        Queue::with(waiting, u64::MAX, false)
    }

    /// The queue of the free buffers of a pipeline. It numbers buffers as they are taken, and
    /// closes after `rounds` of them. If `rounds` is 0, the caller has to close it.
    pub(crate) fn of_free(waiting: Waiting, rounds: Option<u64>) -> Queue<T, S> {
        Queue::with(waiting, rounds.unwrap_or(u64::MAX), true)
    }

    fn with(waiting: Waiting, limit: u64, assigns_numbers: bool) -> Queue<T, S> {
        let (entries, sleepers) = (VecDeque::new(), Vec::new());
        let state = State { entries, sleepers, taken: 0, limit, assigns_numbers, is_closed: false };
        Queue { state: Mutex::with(state, waiting) }
    }

    /// Appends all entries, and moves one sleeper for each to `woken`. Returns the new depth. If
    /// the queue is closed, does nothing and returns `None`.
    pub(crate) fn convey(&self, entries: &mut QueuedBuffers<T>, woken: &mut Vec<S>) -> Option<usize> {
        let mut state = self.state.lock();
        (!state.is_closed).then(|| state.append(entries, woken))
    }

    /// [`Queue::convey`] and [`Queue::take`] by a sleeper in one step, which leaves the entries in
    /// place. Only possible if the queue is empty and the sleeper would take all entries; `most`
    /// returns how many it takes. Returns the place of the first entry, and the sleeper.
    pub(crate) fn pass(
        &self,
        entries: &QueuedBuffers<T>,
        most: impl FnOnce(&S) -> usize,
        woken: &mut Vec<S>,
    ) -> Option<(u64, S)> {
        let mut state = self.state.lock();
        if state.is_closed
            || state.assigns_numbers
            || !state.entries.is_empty()
            || most(state.sleepers.last()?) < entries.len()
        {
            return None;
        }
        let taker = state.sleepers.pop()?;
        let first = state.taken;
        state.taken += entries.len() as u64;
        if entries.back().is_some_and(|entry| entry.is_last) {
            state.close(woken);
        }
        Some((first, taker))
    }

    /// [`Queue::convey`] for free buffers, which works on a closed queue too.
    pub(crate) fn keep(&self, entries: &mut QueuedBuffers<T>, woken: &mut Vec<S>) -> usize {
        self.state.lock().append(entries, woken)
    }

    /// Moves at most `most` entries to the end of `input`. Taking the last buffer closes the queue.
    ///
    /// If `most` is 0, only checks whether there are entries, and makes the taker a sleeper if not.
    pub(crate) fn take(
        &self,
        most: usize,
        input: &mut QueuedBuffers<T>,
        woken: &mut Vec<S>,
        taker: S,
    ) -> TakeResult<S> {
        let mut state = self.state.lock();
        if state.is_closed {
            return TakeResult::Closed(taker);
        }
        if state.entries.is_empty() {
            state.sleepers.push(taker);
            return TakeResult::Sleeping;
        }
        let first = state.taken;
        for _ in 0..most {
            let takes_last = cfg!(rowlock_canary = "a-queue-gives-the-last-first");
            let entry = if takes_last { state.entries.pop_back() } else { state.entries.pop_front() };
            let Some(mut entry) = entry else { break };
            if state.assigns_numbers {
                entry.number = state.taken;
            }
            state.taken += 1;
            entry.is_last |= state.taken == state.limit;
            let is_last = entry.is_last;
            input.push_back(entry);
            if is_last {
                state.close(woken);
                break;
            }
        }
        TakeResult::Buffers { first, left: state.entries.len(), taker }
    }

    /// Closes the queue: the sleepers move to `woken`, the entries to `rest`. Returns whether it
    /// was open.
    pub(crate) fn close(&self, rest: &mut QueuedBuffers<T>, woken: &mut Vec<S>) -> bool {
        let mut state = self.state.lock();
        rest.append(&mut state.entries);
        let was_open = !state.is_closed;
        state.close(woken);
        was_open
    }

    /// Moves all sleepers to `woken`, so that they check the state of the run.
    pub(crate) fn take_sleepers(&self, woken: &mut Vec<S>) {
        woken.append(&mut self.state.lock().sleepers);
    }

    /// Adds a sleeper that has not tried to take.
    pub(crate) fn add_sleeper(&self, taker: S) {
        self.state.lock().sleepers.push(taker);
    }

    /// The number of entries, the number of sleepers, and whether the queue is closed.
    pub(crate) fn status(&self) -> (usize, usize, bool) {
        let state = self.state.lock();
        (state.entries.len(), state.sleepers.len(), state.is_closed)
    }
}

impl<T, S> State<T, S> {
    fn append(&mut self, entries: &mut QueuedBuffers<T>, woken: &mut Vec<S>) -> usize {
        let wakes_none = self.is_closed || cfg!(rowlock_canary = "a-queue-calls-no-taker");
        let wanted = if wakes_none { 0 } else { entries.len().min(self.sleepers.len()) };
        self.entries.append(entries);
        woken.extend(self.sleepers.drain(self.sleepers.len() - wanted..));
        self.entries.len()
    }

    fn close(&mut self, woken: &mut Vec<S>) {
        self.is_closed = true;
        woken.append(&mut self.sleepers);
    }
}

#[cfg(all(test, loom))]
mod model;
