//! A multi-level feedback queue: whom to run next, of threads that show by what they do how they want to be treated.
//!
//! Source: Patel, Hidalgo and Ismail, "Thread Scheduling" (a study of a user-level thread library at Rutgers), which varies two numbers:
//! the *priority levels* and the *running time*. What they mean there it leaves to a document that is lost; so the rules are those
//! of the textbook (Arpaci-Dusseau, "Operating Systems: Three Easy Pieces", chapter 8, rules 1 to 5), after Corbató, Daggett and Daley,
//! "An Experimental Time-Sharing System" (1962):
//!
//! 1. Of two threads at different levels the one at the higher level runs.
//! 2. Threads at one level take turns, in the order in which they came there.
//! 3. A new thread begins at the highest level.
//! 4. A thread that has used up the running time of its level goes down by one, however often it has given up its CPU meanwhile: waiting or
//!    yielding in time earns nothing. At the lowest level it stays, and goes behind the others there.
//! 5. From time to time, the *boost*, all threads go to the highest level: nobody starves, and who has changed is found out.
//!
//! Choices that the sources leave open: the running time is the same at every level (with Corbató it doubles). Who wakes or yields goes behind
//! the others of its level, with what is left of its time there. Who was preempted by a higher level in the middle of its time goes before them, and loses
//! nothing. A boost keeps the order: those of higher levels stay before those of lower ones; and what threads have used of their time they have
//! used, since a boost more frequent than turns are long would otherwise let who runs do so for ever.
//!
//! # Lending
//! A thread of a low level may have what one of a high level waits for, a lock say, and then those in between keep both from running. So a level can be
//! [inherited](FeedbackQueue::inherit): until it is [given back](FeedbackQueue::disinherit) the thread counts as being at that level, if its own is lower. Its own goes
//! down meanwhile as ever, by what it runs; and a boost raises what is inherited, too, as it raises the lender (Sha, Rajkumar and Lehoczky, "Priority Inheritance Protocols", 1990: what is here is the basic one).
//!
//! # Who asks what
//!
//! The policy is a value without a clock. A world [enters](FeedbackQueue::add) its threads, [queues](FeedbackQueue::enqueue) who becomes ready, [takes](FeedbackQueue::take)
//! whom it runs next, and says [how long](FeedbackQueue::charge) a thread has run: at the moment at which [nothing is left](FeedbackQueue::time_left), where it can
//! interrupt, or late, at the thread's next call, where it cannot. It calls [`FeedbackQueue::boost`] when the period of its
//! [`FeedbackRules`] has passed. With several CPUs, the world says who may run [where](FeedbackQueue::take_if).

mod boost;
mod level_set;

use std::mem::offset_of;

pub use self::boost::{Boost, ParseBoostError};

use self::level_set::LevelSet;
use crate::units::{Span, ThreadId};

/// What a feedback queue is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FeedbackRules {
    /// How many levels there are; none counts as one.
    pub levels: u32,
    /// How long a thread may run at each level.
    pub running_time: Span,
    /// How often all threads go to the highest level.
    pub boost: Boost,
}

impl FeedbackRules {
    /// There are no more levels than this.
    pub const MOST_LEVELS: u32 = 1_024;

    /// How long a thread may run at a level before it goes down.
    pub const fn running_time(&self, _: Level) -> Span {
        self.running_time
    }
}

impl Default for FeedbackRules {
    /// Ten levels of 100 us, the smallest number of levels and the middle running time of the source (whose unit is our reading), and a boost
    /// every hundred running times.
    fn default() -> FeedbackRules {
        FeedbackRules { levels: 10, running_time: Span::from_micros(100), boost: Boost::Every(Span::from_millis(10)) }
    }
}

/// A level; 0 is the highest, and higher levels are smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u32);

/// What became of a thread's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// It has some of its running time left.
    TimeLeft,
    /// It has used it up, and is at the next level.
    UsedUp,
}

/// Nobody: the end of a list.
const END: u32 = u32::MAX;

/// No level: of one that is on no list, or to whom none is inherited. Lower than all.
const NO_LEVEL: u16 = u16::MAX;

/// What is known of a thread.
#[derive(Clone, Copy, Debug)]
struct ThreadState {
    /// How much of the running time of its level it has used.
    used: Span,
    /// Its own level.
    level: u16,
    /// The level that is inherited to it.
    inherited: u16,
    /// The level at which it waits, which is another than its own where that has changed since.
    list: u16,
    /// How many boosts there had been when its level and list were written: before another one they are out of date.
    boosts: u16,
    /// Who waits behind it.
    next: u32,
    /// Who waits before it, unless it is the first.
    previous: u32,
}

impl ThreadState {
    /// The level at which it runs.
    #[inline]
    fn effective(&self) -> u16 {
        self.level.min(self.inherited)
    }

    /// There was a boost: of this thread, and of whoever lends it a level.
    fn apply_boost(&mut self) {
        self.level = 0;
        for level in [&mut self.list, &mut self.inherited] {
            if *level != NO_LEVEL {
                *level = 0;
            }
        }
    }
}

/// Who waits at a level: a list through the standings.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: END, last: END };

/// The queue, and what it knows of each thread; see the module.
///
/// Threads are small numbers, which index a table. Everything takes constant time, up to a look at the levels' bits, but for
/// [`take_if`](FeedbackQueue::take_if), and for one boost in 65 536.
#[derive(Clone, Debug)]
pub struct FeedbackQueue {
    rules: FeedbackRules,
    threads: Vec<ThreadState>,
    levels: Vec<List>,
    /// The levels at which somebody waits.
    occupied: LevelSet,
    waiting: usize,
    boosts: u16,
}

impl FeedbackQueue {
    /// For debuggers, which have no other description of it: where the table of threads and the number of boosts are; the size of an entry of the table, and
    /// where in it the level and the boosts are that it was written at.
    #[doc(hidden)]
    pub const LAYOUT: [u64; 5] = [
        offset_of!(FeedbackQueue, threads) as u64,
        offset_of!(FeedbackQueue, boosts) as u64,
        size_of::<ThreadState>() as u64,
        offset_of!(ThreadState, level) as u64,
        offset_of!(ThreadState, boosts) as u64,
    ];

    /// A queue of nobody.
    pub fn new(rules: FeedbackRules) -> FeedbackQueue {
        let levels = rules.levels.clamp(1, FeedbackRules::MOST_LEVELS) as usize;
        FeedbackQueue {
            rules,
            threads: Vec::new(),
            levels: vec![EMPTY; levels],
            occupied: LevelSet::default(),
            waiting: 0,
            boosts: 0,
        }
    }

    /// What it is made of.
    pub fn rules(&self) -> &FeedbackRules {
        &self.rules
    }

    /// A new thread of this number begins, at the highest level and with nothing used. It does not wait yet.
    #[inline]
    pub fn add(&mut self, thread: ThreadId) {
        let boosts = self.boosts;
        let fresh = ThreadState {
            used: Span::ZERO,
            level: 0,
            inherited: NO_LEVEL,
            list: NO_LEVEL,
            boosts,
            next: END,
            previous: END,
        };
        match self.threads.get_mut(thread.index()) {
            Some(state) => *state = fresh,
            None => self.threads.resize(thread.index() + 1, fresh),
        }
    }

    /// The state of a thread, after the last boost.
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

    /// The level at which a thread that has [entered](FeedbackQueue::add) runs: its own, or one that is inherited to it.
    #[inline]
    pub fn level(&self, thread: ThreadId) -> Level {
        let state = &self.threads[thread.index()];
        if state.boosts == self.boosts { Level(state.effective().into()) } else { Level(0) }
    }

    /// How much longer a thread may run before it goes down.
    #[inline]
    pub fn time_left(&self, thread: ThreadId) -> Span {
        let state = &self.threads[thread.index()];
        let own = if state.boosts == self.boosts { state.level } else { 0 };
        self.rules.running_time(Level(own.into())) - state.used
    }

    /// A thread has run for so long. Where that uses up its running time it is at the next level from now on, with nothing used; what it ran
    /// beyond its time is forgiven.
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

    /// A thread that does not wait does so from now on: behind the others of its level.
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

    /// A thread that was preempted by a higher level waits from now on. In the middle of its running time it does so before the others of its
    /// level, else behind them.
    pub fn enqueue_preempted(&mut self, thread: ThreadId) {
        if self.state(thread).used.is_zero() {
            return self.enqueue(thread);
        }
        let level = self.state(thread).effective();
        let next = std::mem::replace(&mut self.levels[level as usize].first, thread.0);
        let state = self.state(thread);
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

    /// A thread that waits does so no more.
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

    /// A thread counts as being at this level until that is [given back](FeedbackQueue::disinherit), unless its own is higher or it has been inherited a higher one.
    /// Where it waits it goes behind the others of that level.
    pub fn inherit(&mut self, thread: ThreadId, level: Level) {
        let lowest = self.levels.len() as u16 - 1;
        let level = u16::try_from(level.0).unwrap_or(lowest).min(lowest);
        self.change_inherited(thread, |state| state.inherited = state.inherited.min(level));
    }

    /// A thread is at its own level again. Where it waits and that is another, it goes behind the others there.
    pub fn disinherit(&mut self, thread: ThreadId) {
        self.change_inherited(thread, |state| state.inherited = NO_LEVEL);
    }

    /// Changes what a thread was inherited, and moves it if it waits elsewhere than it should then.
    fn change_inherited(&mut self, thread: ThreadId, how: impl FnOnce(&mut ThreadState)) {
        let state = self.state(thread);
        let before = state.effective();
        how(state);
        if state.list != NO_LEVEL && state.effective() != before {
            self.remove(thread);
            self.enqueue(thread);
        }
    }

    /// The highest level at which somebody waits.
    #[inline]
    pub fn highest(&self) -> Option<Level> {
        self.occupied.least().map(|level| Level(level as u32))
    }

    /// Takes the thread that is to run next out of the queue: the first at the highest level at which any waits.
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

    /// A thread that does not wait makes way for others: it [queues](FeedbackQueue::enqueue), and the next to run is [taken](FeedbackQueue::take), which is the same thread again
    /// where nobody waits at its level or a higher one.
    #[inline]
    pub fn requeue_and_take(&mut self, thread: ThreadId) -> ThreadId {
        let level = self.state(thread).effective();
        match self.occupied.least() {
            // The usual case: the ring of one level moves on by one.
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

    /// The same among some: the first of them at the highest level at which any of them waits. Looks at those before it.
    pub fn take_if(&mut self, may_run: impl Fn(ThreadId) -> bool) -> Option<ThreadId> {
        let (_, thread) = self.find(may_run)?;
        self.remove(thread);
        Some(thread)
    }

    /// The level of the thread that [`take_if`](FeedbackQueue::take_if) would take.
    pub fn highest_if(&self, may_run: impl Fn(ThreadId) -> bool) -> Option<Level> {
        self.find(may_run).map(|(level, _)| Level(level as u32))
    }

    /// The first of some, with the level at which it waits.
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

    /// All threads, wherever they are, go to the highest level, with what they have left of their time. Those who wait keep their order.
    pub fn boost(&mut self) {
        self.boosts = self.boosts.wrapping_add(1);
        if self.boosts == 0 {
            // From here on the numbers come again: nobody may be left with one of them.
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

    /// How many threads wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests;
