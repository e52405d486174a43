//! Who has run for how long, for less than reading the clock at every turn would cost.
//!
//! Reading a processor's clock takes longer (11 ns) than going from one fiber to another (5 ns). So while turns are *quick*, the clock is read once for a window
//! of [`WINDOW`] turns, and each of them counts as an equal part. Turns are taken for quick after [`CALM`] measured ones in a row that were shorter than
//! [`QUICK`], and until a window comes out longer; then each is measured. What this gets wrong is bounded: the first long turn after
//! [`CALM`] quick ones is spread over the window that it falls into, so whoever had it is charged an eighth of it, and the others in the window that
//! much too much, once.
//!
//! Between turns, at *points* (a lock, a spawn, a [checkpoint](crate::checkpoint)), the clock is read now and then: after as many as took an eighth of the
//! running time when it was last read, at most [`POINTS`].

use std::cell::Cell;

use policy::Span;

use crate::clock::Clock;
use crate::record::Fiber;

/// How many quick turns share one reading.
pub(crate) const WINDOW: usize = 8;

/// A turn is quick if it is shorter.
pub(crate) const QUICK: Span = Span::from_nanos(250);

/// How many quick turns in a row make the next ones count as quick.
pub(crate) const CALM: u32 = 32;

/// At most so many points go by between two readings.
pub(crate) const POINTS: u32 = 64;

/// What a worker knows of its turns.
pub(crate) struct Meter {
    /// When the clock was last read.
    since: Cell<u64>,
    /// How many turns have been quick, in a row.
    calm: Cell<u32>,
    /// How many turns are in the window.
    turns: Cell<usize>,
    window: [Cell<Option<Fiber>>; WINDOW],
    /// [`QUICK`] in ticks; with zero no turn is.
    quick: u64,
    /// How many points may still go by.
    points: Cell<u32>,
    /// How many went by between the last two readings.
    asked: Cell<u32>,
    /// An eighth of a running time, in ticks.
    eighth: u64,
}

impl Meter {
    pub(crate) fn new(clock: &Clock, running_time: Span) -> Meter {
        let exact = matches!(clock, Clock::Virtual { .. });
        Meter {
            since: Cell::new(clock.ticks()),
            calm: Cell::new(0),
            turns: Cell::new(0),
            window: [const { Cell::new(None) }; WINDOW],
            quick: if exact { 0 } else { clock.in_ticks(QUICK) },
            points: Cell::new(1),
            asked: Cell::new(1),
            eighth: clock.in_ticks(running_time) / 8,
        }
    }

    /// A running time, in ticks.
    pub(crate) fn whole(&self) -> u32 {
        u32::try_from(self.eighth * 8).unwrap_or(u32::MAX).max(1)
    }

    /// A turn is over, of this fiber unless it has ended. True if the clock is to be read now.
    #[inline(always)]
    pub(crate) fn turn(&self, fiber: Option<Fiber>) -> bool {
        if self.calm.get() < CALM {
            self.window[0].set(fiber);
            self.turns.set(1);
            return true;
        }
        let turns = self.turns.get();
        self.window[turns & (WINDOW - 1)].set(fiber);
        self.turns.set(turns + 1);
        turns + 1 == WINDOW
    }

    /// The clock says `now`, at the end of a turn or, with `going_on`, in the middle of that fiber's. Who has run since it was last read, and for how long each.
    #[inline]
    pub(crate) fn read(&self, now: u64, going_on: Option<Fiber>, mut ran: impl FnMut(Fiber, u64)) {
        if let Some(fiber) = going_on {
            let turns = self.turns.get();
            self.window[turns & (WINDOW - 1)].set(Some(fiber));
            self.turns.set(turns + 1);
        }
        let turns = self.turns.replace(0).clamp(1, WINDOW);
        let passed = now.saturating_sub(self.since.replace(now));
        let each = passed / turns as u64;
        for fiber in self.window[..turns].iter().filter_map(Cell::get) {
            ran(fiber, each);
        }
        self.calm.set(if each < self.quick { (self.calm.get() + 1).min(CALM) } else { 0 });
        let asked = u64::from(self.asked.get() - self.points.get()).max(1);
        let points = (self.eighth * asked / passed.max(1)).clamp(1, u64::from(POINTS)) as u32;
        let points = if self.quick == 0 { 1 } else { points };
        self.asked.set(points);
        self.points.set(points);
    }

    /// A point goes by. True if the clock is to be read.
    #[inline(always)]
    pub(crate) fn point(&self) -> bool {
        let points = self.points.get().wrapping_sub(1);
        self.points.set(points);
        points == 0
    }

    /// The clock is to be read at the next point.
    #[inline]
    pub(crate) fn soon(&self) {
        self.asked.set(self.asked.get().wrapping_sub(self.points.get()).wrapping_add(1));
        self.points.set(1);
    }

    /// This fiber is no more: what its last turns took is nobody's.
    #[inline]
    pub(crate) fn forget(&self, fiber: Fiber) {
        for entry in &self.window[..self.turns.get().min(WINDOW)] {
            if entry.get() == Some(fiber) {
                entry.set(None);
            }
        }
    }

    /// Nobody has run since the clock was last read: it is now.
    pub(crate) fn restart(&self, now: u64) {
        self.since.set(now);
    }
}
