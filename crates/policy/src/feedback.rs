//! A multi-level feedback queue: selects the next thread by how each thread has used its CPU time.
//!
//! Source: Patel, Hidalgo and Ismail, "Thread Scheduling" (a study of a user-level thread library
//! at Rutgers). It varies two numbers, the *priority levels* and the *running time*, and defines
//! them in a document that is lost. The rules are therefore those of the textbook (Arpaci-Dusseau,
//! "Operating Systems: Three Easy Pieces", chapter 8, rules 1 to 5), after Corbató, Daggett and
//! Daley, "An Experimental Time-Sharing System" (1962):
//!
//! 1. Of two threads at different levels, the one at the higher level runs.
//! 2. Threads at the same level take turns, in the order in which they reached it.
//! 3. A new thread starts at the highest level.
//! 4. A thread that has used up the running time of its level moves down by one, however often it
//!    gave up its CPU in between: waiting or yielding early gains nothing. At the lowest level it
//!    stays, and goes behind the others there.
//! 5. From time to time all threads move to the highest level (the *boost*). So no thread starves,
//!    and a thread whose behaviour has changed is reclassified.
//!
//! Choices that the sources leave open: the running time is the same at every level (Corbató
//! doubles it). A thread that wakes or yields goes behind the others of its level and keeps the
//! rest of its running time. A thread that a higher level preempted before its running time was
//! used up goes in front of them and loses nothing. A boost keeps the order: threads of higher
//! levels stay in front of those of lower ones. It does not reset the running time that threads
//! have used; otherwise a thread could run forever if boosts were more frequent than turns.
//!
//! # Priority inheritance
//! A thread of a low level may hold what a thread of a high level waits for, such as a lock, and
//! threads of the levels in between would keep both from running. So a thread can
//! [inherit](FeedbackQueue::inherit) a level: until it [drops it](FeedbackQueue::disinherit) it
//! counts as being at that level, if its own is lower. Its own level goes down as usual meanwhile,
//! and a boost raises the inherited level as it raises the waiting thread (Sha, Rajkumar and
//! Lehoczky, "Priority Inheritance Protocols", 1990; this is the basic protocol).
//!
//! # Use
//!
//! The policy is a value without a clock. The world [adds](FeedbackQueue::add) its threads,
//! [enqueues](FeedbackQueue::enqueue) a thread that becomes ready, [takes](FeedbackQueue::take) the
//! next one to run, and [charges](FeedbackQueue::charge) a thread for the time that it has run:
//! when [none is left](FeedbackQueue::time_left) if it can interrupt the thread, or else later, at
//! the thread's next call. It calls [`FeedbackQueue::boost`] at the period that the
//! [`FeedbackRules`] state. With several CPUs, the world says which thread may run
//! [where](FeedbackQueue::take_if), or each CPU has a queue, and gives threads to those that have
//! none: [`given_share`] says how many.

mod boost;
mod level_set;

use std::mem::offset_of;

pub use self::boost::Boost;

use self::level_set::LevelSet;
use crate::units::{Span, ThreadId};

/// The parameters of a feedback queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FeedbackRules {
    /// The number of levels; zero counts as one.
    pub levels: u32,
    /// How long a thread may run at each level.
    pub running_time: Span,
    /// How often all threads move to the highest level.
    pub boost: Boost,
}

impl FeedbackRules {
    /// The largest number of levels.
    pub const MOST_LEVELS: u32 = 1_024;

    /// The rules with their times rounded down to multiples of `step`, at least one.
    pub fn floor_to(&self, step: Span) -> FeedbackRules {
        let floor = |span: Span| span.floor_to(step).max(step);
        let boost = self.boost.period().map_or(Boost::Never, |period| Boost::Every(floor(period)));
        FeedbackRules { running_time: floor(self.running_time), boost, ..*self }
    }
}

impl Default for FeedbackRules {
    /// Ten levels of 100 us, and a boost every hundred running times. These are the smallest number
    /// of levels and the middle running time of the source, whose unit is our reading.
    fn default() -> FeedbackRules {
        FeedbackRules { levels: 10, running_time: Span::from_micros(100), boost: Boost::Every(Span::from_millis(10)) }
    }
}

/// A level; 0 is the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u32);

/// Whether a thread has used up its running time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// Some of it is left.
    TimeLeft,
    /// The thread has used it up, and is now at the next level.
    UsedUp,
}

/// The share of a thread that moves from one queue to another: its level, and how much of that
/// level's running time it has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadShare {
    level: u16,
    used: Span,
}

/// The most ready threads that a queue gives away at once.
pub const MOST_GIVEN: usize = 32;

/// How many of so many ready threads a queue gives to each of the others that have requested some:
/// all get equal shares, and it keeps one share itself, but none gets more than [`MOST_GIVEN`].
pub fn given_share(ready: usize, takers: usize) -> usize {
    ready.div_ceil(takers + 1).min(MOST_GIVEN)
}

/// The end of a list.
const END: u32 = u32::MAX;

/// No level: of a thread that is in no list, or inherits no level. Lower than all.
const NO_LEVEL: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct ThreadState {
    /// How much of the running time of its level the thread has used.
    used: Span,
    level: u16,
    inherited: u16,
    /// The level in whose list the thread is. It may differ from its own, which may have changed
    /// since.
    list: u16,
    /// The number of boosts when `level` and `list` were written. After another boost they are out
    /// of date.
    boosts: u16,
    next: u32,
    /// The previous thread in the list; meaningless for the first.
    previous: u32,
}

impl ThreadState {
    /// The level at which the thread runs.
    #[inline]
    fn effective(&self) -> u16 {
        self.level.min(self.inherited)
    }

    /// Applies a boost to this thread and to the level that it inherits.
    fn apply_boost(&mut self) {
        self.level = 0;
        for level in [&mut self.list, &mut self.inherited] {
            if *level != NO_LEVEL {
                *level = 0;
            }
        }
    }
}

/// The ready threads of a level: a list that runs through the thread states.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: END, last: END };

/// The queue and the state of each thread; see the module.
///
/// Threads are small numbers that index a table. Everything takes constant time up to a search of
/// the levels' bits, except for [`take_if`](FeedbackQueue::take_if) and for one boost in 65 536.
#[derive(Clone, Debug)]
pub struct FeedbackQueue {
    rules: FeedbackRules,
    threads: Vec<ThreadState>,
    levels: Vec<List>,
    /// The levels at which threads are ready.
    occupied: LevelSet,
    waiting: usize,
    boosts: u16,
}

impl FeedbackQueue {
    /// The layout for debuggers: the offsets of the table of threads and of the number of boosts,
    /// the size of an entry of the table, and the offsets of the entry's level and boosts.
    #[doc(hidden)]
    pub const LAYOUT: [u64; 5] = [
        offset_of!(FeedbackQueue, threads) as u64,
        offset_of!(FeedbackQueue, boosts) as u64,
        size_of::<ThreadState>() as u64,
        offset_of!(ThreadState, level) as u64,
        offset_of!(ThreadState, boosts) as u64,
    ];

    /// An empty queue.
    pub fn new(rules: FeedbackRules) -> FeedbackQueue {
        let levels = rules.levels.clamp(1, FeedbackRules::MOST_LEVELS) as usize;
        let (levels, occupied) = (vec![EMPTY; levels], LevelSet::default());
        FeedbackQueue { rules, threads: Vec::new(), levels, occupied, waiting: 0, boosts: 0 }
    }

    /// The parameters.
    pub fn rules(&self) -> &FeedbackRules {
        &self.rules
    }

    /// Adds a thread at the highest level with no time used, or resets one. It is not enqueued yet.
    #[inline]
    pub fn add(&mut self, thread: ThreadId) {
        let (inherited, list, boosts) = (NO_LEVEL, NO_LEVEL, self.boosts);
        let fresh = ThreadState { used: Span::ZERO, level: 0, inherited, list, boosts, next: END, previous: END };
        match self.threads.get_mut(thread.index()) {
            Some(state) => *state = fresh,
            None => self.threads.resize(thread.index() + 1, fresh),
        }
    }

    /// Releases a thread, which is not in the queue, so that another queue can
    /// [admit](FeedbackQueue::admit) it. Levels that it inherits stay behind.
    pub fn release(&mut self, thread: ThreadId) -> ThreadShare {
        let ThreadState { level, used, .. } = *self.state(thread);
        ThreadShare { level, used }
    }

    /// Adds a thread that another queue has [released](FeedbackQueue::release), at the same level
    /// or the lowest of this queue. It is not enqueued yet.
    pub fn admit(&mut self, thread: ThreadId, share: ThreadShare) {
        self.add(thread);
        let lowest = self.levels.len() as u16 - 1;
        let state = &mut self.threads[thread.index()];
        (state.level, state.used) = (share.level.min(lowest), share.used);
    }

    /// The state of a thread, brought up to date with the last boost.
    #[inline]
    fn state(&mut self, thread: ThreadId) -> &mut ThreadState {
        let boosts = self.boosts;
        let state = &mut self.threads[thread.index()];
        if state.boosts != boosts {
            state.apply_boost();
            state.boosts = boosts;
        }
        state
    }

    /// The level at which a thread runs: its own, or one that it inherits.
    #[inline]
    pub fn level(&self, thread: ThreadId) -> Level {
        let state = &self.threads[thread.index()];
        if state.boosts == self.boosts { Level(state.effective().into()) } else { Level(0) }
    }

    /// How much longer a thread may run before it moves down.
    #[inline]
    pub fn time_left(&self, thread: ThreadId) -> Span {
        let state = &self.threads[thread.index()];
        self.rules.running_time - state.used
    }

    /// Charges a thread for the time that it has run. If that uses up its running time, the thread
    /// moves to the next level with no time used; the excess is forgiven.
    #[inline]
    pub fn charge(&mut self, thread: ThreadId, span: Span) -> TurnOutcome {
        let left = self.time_left(thread);
        let lowest = self.levels.len() as u16 - 1;
        let state = self.state(thread);
        if span < left {
            state.used += span;
            return TurnOutcome::TimeLeft;
        }
        state.used = Span::ZERO;
        state.level = (state.level + 1).min(lowest);
        TurnOutcome::UsedUp
    }

    /// Enqueues a thread behind the others of its level. It must not be in the queue.
    #[inline]
    pub fn enqueue(&mut self, thread: ThreadId) {
        let state = self.state(thread);
        let level = state.effective();
        (state.list, state.next) = (level, END);
        let last = std::mem::replace(&mut self.levels[level as usize].last, thread.0);
        self.threads[thread.index()].previous = last;
        match self.threads.get_mut(last as usize) {
            Some(last) => last.next = thread.0,
            None => self.levels[level as usize].first = thread.0,
        }
        self.mark_occupied(level.into());
    }

    /// Enqueues a thread that a higher level preempted: in front of the others of its level if it
    /// has used some of its running time, else behind them. It must not be in the queue.
    pub fn enqueue_preempted(&mut self, thread: ThreadId) {
        let state = self.state(thread);
        if state.used.is_zero() {
            return self.enqueue(thread);
        }
        let level = state.effective();
        let next = std::mem::replace(&mut self.levels[level as usize].first, thread.0);
        let state = &mut self.threads[thread.index()];
        (state.list, state.next) = (level, next);
        match self.threads.get_mut(next as usize) {
            Some(next) => next.previous = thread.0,
            None => self.levels[level as usize].last = thread.0,
        }
        self.mark_occupied(level.into());
    }

    #[inline]
    fn mark_occupied(&mut self, level: usize) {
        self.occupied.insert(level);
        self.waiting += 1;
    }

    /// Takes a thread out of the queue, if it is there. It keeps its level and the rest of its
    /// running time.
    pub fn dequeue(&mut self, thread: ThreadId) {
        if self.threads[thread.index()].list != NO_LEVEL {
            self.remove(thread);
        }
    }

    #[inline]
    fn remove(&mut self, thread: ThreadId) {
        let state = self.state(thread);
        let level = std::mem::replace(&mut state.list, NO_LEVEL) as usize;
        let (previous, next) = (state.previous, state.next);
        let is_first = self.levels[level].first == thread.0;
        if is_first {
            self.levels[level].first = next;
        } else {
            self.threads[previous as usize].next = next;
        }
        if next == END {
            self.levels[level].last = if is_first { END } else { previous };
        } else if !is_first {
            self.threads[next as usize].previous = previous;
        }
        if is_first && next == END {
            self.occupied.remove(level);
        }
        self.waiting -= 1;
    }

    /// Gives a thread this level until [`disinherit`](FeedbackQueue::disinherit), unless its own is
    /// higher or it already inherits a higher one. If it is in the queue, it goes behind the others
    /// of that level.
    pub fn inherit(&mut self, thread: ThreadId, level: Level) {
        let lowest = self.levels.len() as u16 - 1;
        let level = u16::try_from(level.0).unwrap_or(lowest).min(lowest);
        self.change_inherited(thread, |state| state.inherited = state.inherited.min(level));
    }

    /// Returns a thread to its own level. If it is in the queue and the level changes, it goes
    /// behind the others there.
    pub fn disinherit(&mut self, thread: ThreadId) {
        self.change_inherited(thread, |state| state.inherited = NO_LEVEL);
    }

    /// Changes the level that a thread inherits, and moves the thread if it is now in the wrong
    /// list.
    fn change_inherited(&mut self, thread: ThreadId, change: impl FnOnce(&mut ThreadState)) {
        let state = self.state(thread);
        let before = state.effective();
        change(state);
        if state.list != NO_LEVEL && state.effective() != before {
            self.remove(thread);
            self.enqueue(thread);
        }
    }

    /// The highest level at which a thread is ready.
    #[inline]
    pub fn highest(&self) -> Option<Level> {
        self.occupied.least().map(|level| Level(level as u32))
    }

    /// Takes the next thread to run out of the queue: the first at the highest level.
    #[inline]
    pub fn take(&mut self) -> Option<ThreadId> {
        let level = self.occupied.least()?;
        let list = &mut self.levels[level];
        let first = list.first;
        let state = &mut self.threads[first as usize];
        state.list = NO_LEVEL;
        list.first = state.next;
        if list.first == END {
            *list = EMPTY;
            self.occupied.remove(level);
        }
        self.waiting -= 1;
        Some(ThreadId(first))
    }

    /// [Enqueues](FeedbackQueue::enqueue) a thread that is not in the queue, and
    /// [takes](FeedbackQueue::take) the next one to run. That is the same thread again if no other
    /// is ready at its level or a higher one.
    #[inline]
    pub fn requeue_and_take(&mut self, thread: ThreadId) -> ThreadId {
        let level = self.state(thread).effective();
        match self.occupied.least() {
            // The usual case: rotate the list of this level by one.
            Some(highest) if highest == usize::from(level) => {
                let list = &mut self.levels[highest];
                let (first, last) = (list.first, list.last);
                let state = &mut self.threads[thread.index()];
                (state.list, state.next, state.previous) = (level, END, last);
                self.threads[last as usize].next = thread.0;
                let state = &mut self.threads[first as usize];
                state.list = NO_LEVEL;
                *list = List { first: state.next, last: thread.0 };
                ThreadId(first)
            }
            Some(highest) if highest < usize::from(level) => {
                self.enqueue(thread);
                self.take().unwrap_or(thread)
            }
            _ => thread,
        }
    }

    /// Takes the first thread that may run, from the highest level that has one. Visits the threads
    /// in front of it.
    pub fn take_if(&mut self, may_run: impl Fn(ThreadId) -> bool) -> Option<ThreadId> {
        let (_, thread) = self.find(may_run)?;
        self.remove(thread);
        Some(thread)
    }

    /// The level of the thread that [`take_if`](FeedbackQueue::take_if) would take.
    pub fn highest_if(&self, may_run: impl Fn(ThreadId) -> bool) -> Option<Level> {
        self.find(may_run).map(|(level, _)| Level(level as u32))
    }

    /// The first thread that may run, with its level.
    fn find(&self, may_run: impl Fn(ThreadId) -> bool) -> Option<(usize, ThreadId)> {
        for level in self.occupied.iter() {
            let mut at = self.levels[level].first;
            while at != END {
                let thread = ThreadId(at);
                if may_run(thread) {
                    return Some((level, thread));
                }
                at = self.threads[thread.index()].next;
            }
        }
        None
    }

    /// Moves all threads to the highest level. They keep the rest of their running time, and those
    /// in the queue keep their order.
    pub fn boost(&mut self) {
        self.boosts = self.boosts.wrapping_add(1);
        if self.boosts == 0 {
            // The counter wraps around: no thread may keep an old number.
            for state in &mut self.threads {
                state.apply_boost();
                state.boosts = 0;
            }
        }
        let mut all = EMPTY;
        for level in &mut self.levels {
            let List { first, last } = std::mem::replace(level, EMPTY);
            if first == END {
                continue;
            }
            self.threads[first as usize].previous = all.last;
            match self.threads.get_mut(all.last as usize) {
                Some(before) => before.next = first,
                None => all.first = first,
            }
            all.last = last;
        }
        self.levels[0] = all;
        self.occupied = LevelSet::default();
        if all.first != END {
            self.occupied.insert(0);
        }
    }

    /// The number of threads in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests;
