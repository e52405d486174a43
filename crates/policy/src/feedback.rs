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
//! [lent](Feedback::lend): until it is [given back](Feedback::give_back) the thread counts as being at that level, if its own is lower. Its own goes
//! down meanwhile as ever, by what it runs; and a boost raises what is lent, too, as it raises the lender (Sha, Rajkumar and Lehoczky, "Priority Inheritance Protocols", 1990: what is here is the basic one).
//!
//! # Who asks what
//!
//! The policy is a value without a clock. A world [enters](Feedback::enter) its threads, [queues](Feedback::queue) who becomes ready, [takes](Feedback::take)
//! whom it runs next, and says [how long](Feedback::ran) a thread has run: at the moment at which [nothing is left](Feedback::left), where it can
//! interrupt, or late, at the thread's next call, where it cannot. It calls [`Feedback::boost`] when the period of its
//! [`Rules`] has passed. With several CPUs, the world says who may run [where](Feedback::take_if).

mod boost;
mod occupied;

use std::mem::offset_of;

pub use self::boost::{Boost, ParseBoostError};

use self::occupied::Occupied;
use crate::units::{Span, ThreadId};

/// What a feedback queue is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How many levels there are; none counts as one.
    pub levels: u32,
    /// How long a thread may run at each level.
    pub running_time: Span,
    /// How often all threads go to the highest level.
    pub boost: Boost,
}

impl Rules {
    /// There are no more levels than this.
    pub const MOST_LEVELS: u32 = 1_024;

    /// How long a thread may run at a level before it goes down.
    pub const fn running_time(&self, _: Level) -> Span {
        self.running_time
    }
}

impl Default for Rules {
    /// Ten levels of 100 us, the smallest number of levels and the middle running time of the source (whose unit is our reading), and a boost
    /// every hundred running times.
    fn default() -> Rules {
        Rules { levels: 10, running_time: Span::from_micros(100), boost: Boost::Every(Span::from_millis(10)) }
    }
}

/// A level; 0 is the highest, and higher levels are smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u32);

/// What became of a thread's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has some of its running time left.
    GoesOn,
    /// It has used it up, and is at the next level.
    IsOver,
}

/// Nobody: the end of a list.
const NOBODY: u32 = u32::MAX;

/// No level: of one that is on no list, or to whom none is lent. Lower than all.
const NONE: u16 = u16::MAX;

/// What is known of a thread.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// How much of the running time of its level it has used.
    used: Span,
    /// Its own level.
    level: u16,
    /// The level that is lent to it.
    lent: u16,
    /// The level at which it waits, which is another than its own where that has changed since.
    list: u16,
    /// How many boosts there had been when its level and list were written: before another one they are out of date.
    boosts: u16,
    /// Who waits behind it.
    next: u32,
    /// Who waits before it, unless it is the first.
    previous: u32,
}

impl Standing {
    /// The level at which it runs.
    #[inline]
    fn effective(&self) -> u16 {
        self.level.min(self.lent)
    }

    /// There was a boost: of this thread, and of whoever lends it a level.
    fn rise(&mut self) {
        self.level = 0;
        for level in [&mut self.list, &mut self.lent] {
            if *level != NONE {
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

const EMPTY: List = List { first: NOBODY, last: NOBODY };

/// The queue, and what it knows of each thread; see the module.
///
/// Threads are small numbers, which index a table. Everything takes constant time, up to a look at the levels' bits, but for
/// [`take_if`](Feedback::take_if), and for one boost in 65 536.
#[derive(Clone, Debug)]
pub struct Feedback {
    rules: Rules,
    threads: Vec<Standing>,
    levels: Vec<List>,
    /// The levels at which somebody waits.
    occupied: Occupied,
    waiting: usize,
    boosts: u16,
}

impl Feedback {
    /// For debuggers, which have no other description of it: where the table of threads and the number of boosts are; the size of an entry of the table, and
    /// where in it the level and the boosts are that it was written at.
    #[doc(hidden)]
    pub const LAYOUT: [u64; 5] = [
        offset_of!(Feedback, threads) as u64,
        offset_of!(Feedback, boosts) as u64,
        size_of::<Standing>() as u64,
        offset_of!(Standing, level) as u64,
        offset_of!(Standing, boosts) as u64,
    ];

    /// A queue of nobody.
    pub fn new(rules: Rules) -> Feedback {
        let levels = rules.levels.clamp(1, Rules::MOST_LEVELS) as usize;
        Feedback {
            rules,
            threads: Vec::new(),
            levels: vec![EMPTY; levels],
            occupied: Occupied::default(),
            waiting: 0,
            boosts: 0,
        }
    }

    /// What it is made of.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A new thread of this number begins, at the highest level and with nothing used. It does not wait yet.
    #[inline]
    pub fn enter(&mut self, thread: ThreadId) {
        let boosts = self.boosts;
        let fresh =
            Standing { used: Span::ZERO, level: 0, lent: NONE, list: NONE, boosts, next: NOBODY, previous: NOBODY };
        match self.threads.get_mut(thread.index()) {
            Some(standing) => *standing = fresh,
            None => self.threads.resize(thread.index() + 1, fresh),
        }
    }

    /// The standing of a thread, after the last boost.
    #[inline]
    fn standing(&mut self, thread: ThreadId) -> &mut Standing {
        let boosts = self.boosts;
        let standing = &mut self.threads[thread.index()];
        if standing.boosts != boosts {
            standing.rise();
            standing.boosts = boosts;
        }
        standing
    }

    /// The level at which a thread that has [entered](Feedback::enter) runs: its own, or one that is lent to it.
    #[inline]
    pub fn level(&self, thread: ThreadId) -> Level {
        let standing = &self.threads[thread.index()];
        if standing.boosts == self.boosts { Level(standing.effective().into()) } else { Level(0) }
    }

    /// How much longer a thread may run before it goes down.
    #[inline]
    pub fn left(&self, thread: ThreadId) -> Span {
        let standing = &self.threads[thread.index()];
        let own = if standing.boosts == self.boosts { standing.level } else { 0 };
        self.rules.running_time(Level(own.into())) - standing.used
    }

    /// A thread has run for so long. Where that uses up its running time it is at the next level from now on, with nothing used; what it ran
    /// beyond its time is forgiven.
    #[inline]
    pub fn ran(&mut self, thread: ThreadId, span: Span) -> Turn {
        let left = self.left(thread);
        let lowest = self.levels.len() as u16 - 1;
        let standing = self.standing(thread);
        if span < left {
            standing.used += span;
            return Turn::GoesOn;
        }
        standing.used = Span::ZERO;
        standing.level = (standing.level + 1).min(lowest);
        Turn::IsOver
    }

    /// A thread that does not wait does so from now on: behind the others of its level.
    #[inline]
    pub fn queue(&mut self, thread: ThreadId) {
        let standing = self.standing(thread);
        let level = standing.effective();
        (standing.list, standing.next) = (level, NOBODY);
        let last = std::mem::replace(&mut self.levels[level as usize].last, thread.0);
        self.threads[thread.index()].previous = last;
        match self.threads.get_mut(last as usize) {
            Some(last) => last.next = thread.0,
            None => self.levels[level as usize].first = thread.0,
        }
        self.is_occupied(level.into());
    }

    /// A thread that was preempted by a higher level waits from now on. In the middle of its running time it does so before the others of its
    /// level, else behind them.
    pub fn queue_again(&mut self, thread: ThreadId) {
        if self.standing(thread).used.is_zero() {
            return self.queue(thread);
        }
        let level = self.standing(thread).effective();
        let next = std::mem::replace(&mut self.levels[level as usize].first, thread.0);
        let standing = self.standing(thread);
        (standing.list, standing.next) = (level, next);
        match self.threads.get_mut(next as usize) {
            Some(next) => next.previous = thread.0,
            None => self.levels[level as usize].last = thread.0,
        }
        self.is_occupied(level.into());
    }

    #[inline]
    fn is_occupied(&mut self, level: usize) {
        self.occupied.insert(level);
        self.waiting += 1;
    }

    /// A thread that waits does so no more.
    #[inline]
    fn unqueue(&mut self, thread: ThreadId) {
        let standing = self.standing(thread);
        let level = std::mem::replace(&mut standing.list, NONE) as usize;
        let (previous, next) = (standing.previous, standing.next);
        let is_first = self.levels[level].first == thread.0;
        if is_first {
            self.levels[level].first = next;
        } else {
            self.threads[previous as usize].next = next;
        }
        if next == NOBODY {
            self.levels[level].last = if is_first { NOBODY } else { previous };
        } else if !is_first {
            self.threads[next as usize].previous = previous;
        }
        if is_first && next == NOBODY {
            self.occupied.remove(level);
        }
        self.waiting -= 1;
    }

    /// A thread counts as being at this level until that is [given back](Feedback::give_back), unless its own is higher or it has been lent a higher one.
    /// Where it waits it goes behind the others of that level.
    pub fn lend(&mut self, thread: ThreadId, level: Level) {
        let lowest = self.levels.len() as u16 - 1;
        let level = u16::try_from(level.0).unwrap_or(lowest).min(lowest);
        self.change(thread, |standing| standing.lent = standing.lent.min(level));
    }

    /// A thread is at its own level again. Where it waits and that is another, it goes behind the others there.
    pub fn give_back(&mut self, thread: ThreadId) {
        self.change(thread, |standing| standing.lent = NONE);
    }

    /// Changes what a thread was lent, and moves it if it waits elsewhere than it should then.
    fn change(&mut self, thread: ThreadId, how: impl FnOnce(&mut Standing)) {
        let standing = self.standing(thread);
        let before = standing.effective();
        how(standing);
        if standing.list != NONE && standing.effective() != before {
            self.unqueue(thread);
            self.queue(thread);
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
        let standing = &mut self.threads[first as usize];
        standing.list = NONE;
        list.first = standing.next;
        if list.first == NOBODY {
            *list = EMPTY;
            self.occupied.remove(level);
        }
        self.waiting -= 1;
        Some(ThreadId(first))
    }

    /// A thread that does not wait makes way for others: it [queues](Feedback::queue), and the next to run is [taken](Feedback::take), which is the same thread again
    /// where nobody waits at its level or a higher one.
    #[inline]
    pub fn make_way(&mut self, thread: ThreadId) -> ThreadId {
        let level = self.standing(thread).effective();
        match self.occupied.least() {
            // The usual case: the ring of one level moves on by one.
            Some(highest) if highest == usize::from(level) => {
                let list = &mut self.levels[highest];
                let (first, last) = (list.first, list.last);
                let standing = &mut self.threads[thread.index()];
                (standing.list, standing.next, standing.previous) = (level, NOBODY, last);
                self.threads[last as usize].next = thread.0;
                let standing = &mut self.threads[first as usize];
                standing.list = NONE;
                *list = List { first: standing.next, last: thread.0 };
                ThreadId(first)
            }
            Some(highest) if highest < usize::from(level) => {
                self.queue(thread);
                self.take().unwrap_or(thread)
            }
            _ => thread,
        }
    }

    /// The same among some: the first of them at the highest level at which any of them waits. Looks at those before it.
    pub fn take_if(&mut self, may_run: impl Fn(ThreadId) -> bool) -> Option<ThreadId> {
        let (_, thread) = self.find(may_run)?;
        self.unqueue(thread);
        Some(thread)
    }

    /// The level of the thread that [`take_if`](Feedback::take_if) would take.
    pub fn highest_if(&self, may_run: impl Fn(ThreadId) -> bool) -> Option<Level> {
        self.find(may_run).map(|(level, _)| Level(level as u32))
    }

    /// The first of some, with the level at which it waits.
    fn find(&self, may_run: impl Fn(ThreadId) -> bool) -> Option<(usize, ThreadId)> {
        for level in self.occupied.iter() {
            let mut at = self.levels[level].first;
            while at != NOBODY {
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
            for standing in &mut self.threads {
                standing.rise();
                standing.boosts = 0;
            }
        }
        let mut all = EMPTY;
        for level in &mut self.levels {
            let List { first, last } = std::mem::replace(level, EMPTY);
            if first == NOBODY {
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
        self.occupied = Occupied::default();
        if all.first != NOBODY {
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
