#![doc = include_str!("queue.md")]

use std::collections::VecDeque;

use wait::{Mutex, Waiting};

use crate::entry::Entry;

/// The buffers before a stage. `R` is who rests at it.
pub(crate) struct Queue<T, R> {
    state: Mutex<State<T, R>>,
}

struct State<T, R> {
    entries: VecDeque<Box<Entry<T>>>,
    resting: Vec<R>,
    /// How many buffers have been taken.
    taken: u64,
    /// How many will be taken in all, where that is known.
    limit: u64,
    /// Whether what is taken gets its number here.
    numbers: bool,
    is_closed: bool,
}

/// What came of taking.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<R> {
    /// Buffers: the place of the first of them in the order of taking, and how many are left in the queue.
    Some { first: u64, left: usize, taker: R },
    /// None; the taker rests.
    Resting,
    /// None, and there will be none.
    Closed(R),
}

impl<T, R> Queue<T, R> {
    /// An empty queue, for stages other than the first of a pipeline.
    pub(crate) fn new(waiting: Waiting) -> Queue<T, R> {
        Queue::with(waiting, u64::MAX, false)
    }

    /// The free buffers of a pipeline, of which the first stage takes so many at the most; they are numbered as they are taken. Where that is none, it
    /// is to be closed.
    pub(crate) fn of_free(waiting: Waiting, rounds: Option<u64>) -> Queue<T, R> {
        Queue::with(waiting, rounds.unwrap_or(u64::MAX), true)
    }

    fn with(waiting: Waiting, limit: u64, numbers: bool) -> Queue<T, R> {
        let (entries, resting) = (VecDeque::new(), Vec::new());
        Queue { state: Mutex::with(State { entries, resting, taken: 0, limit, numbers, is_closed: false }, waiting) }
    }

    /// Appends all entries, and moves as many of those who rest to `called`; returns how many entries the queue holds then. Where the queue is closed
    /// it does nothing and returns nothing.
    pub(crate) fn convey(&self, entries: &mut VecDeque<Box<Entry<T>>>, called: &mut Vec<R>) -> Option<usize> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        Some(state.append(entries, called))
    }

    /// As [`Queue::convey`] and then [`Queue::take`] by one who rests here, in one step, which leaves the entries where they are: possible where nothing waits, and the one who rests, of whom `most` says
    /// how many it takes, would take them all. Returns the place of the first, and who rested.
    pub(crate) fn pass(
        &self,
        entries: &VecDeque<Box<Entry<T>>>,
        most: impl FnOnce(&R) -> usize,
        called: &mut Vec<R>,
    ) -> Option<(u64, R)> {
        let mut state = self.state.lock();
        if state.is_closed || state.numbers || !state.entries.is_empty() || most(state.resting.last()?) < entries.len()
        {
            return None;
        }
        let taker = state.resting.pop()?;
        let first = state.taken;
        state.taken += entries.len() as u64;
        if entries.back().is_some_and(|entry| entry.is_last) {
            state.close(called);
        }
        Some((first, taker))
    }

    /// As [`Queue::convey`], closed or not: for free buffers, which have nowhere else to go.
    pub(crate) fn keep(&self, entries: &mut VecDeque<Box<Entry<T>>>, called: &mut Vec<R>) -> usize {
        self.state.lock().append(entries, called)
    }

    /// Moves the first entries, at the most so many, to the end of `hand`. Who takes the last one closes the queue.
    ///
    /// With `most` 0 it only asks whether there are any, and rests if not.
    pub(crate) fn take(
        &self,
        most: usize,
        hand: &mut VecDeque<Box<Entry<T>>>,
        called: &mut Vec<R>,
        taker: R,
    ) -> Taken<R> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Taken::Closed(taker);
        }
        if state.entries.is_empty() {
            state.resting.push(taker);
            return Taken::Resting;
        }
        let first = state.taken;
        for _ in 0..most {
            let first = match cfg!(rowlock_canary = "a-queue-gives-the-last-first") {
                true => state.entries.pop_back(),
                false => state.entries.pop_front(),
            };
            let Some(mut entry) = first else { break };
            if state.numbers {
                entry.number = state.taken;
            }
            state.taken += 1;
            entry.is_last |= state.taken == state.limit;
            let is_last = entry.is_last;
            hand.push_back(entry);
            if is_last {
                state.close(called);
                break;
            }
        }
        Taken::Some { first, left: state.entries.len(), taker }
    }

    /// Closes the queue: those who rest go to `called`, the entries to `rest`. Returns whether it was open.
    pub(crate) fn close(&self, rest: &mut VecDeque<Box<Entry<T>>>, called: &mut Vec<R>) -> bool {
        let mut state = self.state.lock();
        rest.append(&mut state.entries);
        let was_open = !state.is_closed;
        state.close(called);
        was_open
    }

    /// Moves all who rest to `called`; they will find nothing, and look around.
    pub(crate) fn call_all(&self, called: &mut Vec<R>) {
        called.append(&mut self.state.lock().resting);
    }

    /// Puts somebody to rest who has not taken yet.
    pub(crate) fn rest(&self, taker: R) {
        self.state.lock().resting.push(taker);
    }

    /// How many entries and how many who rest there are, and whether the queue is closed.
    pub(crate) fn look(&self) -> (usize, usize, bool) {
        let state = self.state.lock();
        (state.entries.len(), state.resting.len(), state.is_closed)
    }
}

impl<T, R> State<T, R> {
    fn append(&mut self, entries: &mut VecDeque<Box<Entry<T>>>, called: &mut Vec<R>) -> usize {
        let wanted = if self.is_closed || cfg!(rowlock_canary = "a-queue-calls-no-taker") {
            0
        } else {
            entries.len().min(self.resting.len())
        };
        self.entries.append(entries);
        called.extend(self.resting.drain(self.resting.len() - wanted..));
        self.entries.len()
    }

    fn close(&mut self, called: &mut Vec<R>) {
        self.is_closed = true;
        called.append(&mut self.resting);
    }
}

#[cfg(all(test, loom))]
mod model;
