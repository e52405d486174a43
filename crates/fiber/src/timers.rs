//! A worker's timers: which fiber to wake when.
//!
//! Most timers never fire, because the wait that they would end ends earlier. To add one to ten
//! others and remove it takes some 30 ns, and to a hundred thousand, some 250 ns.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::record::Fiber;

/// A timer: when it fires, in nanoseconds since the beginning, and then the order in which they
/// were added.
pub(crate) type Timer = (u64, u64);

pub(crate) struct Timers {
    beginning: Instant,
    all: RefCell<BTreeMap<Timer, Fiber>>,
    added: Cell<u64>,
    /// When the next timer is due; the maximum if there is none.
    earliest: Cell<u64>,
}

impl Timers {
    pub(crate) fn new(beginning: Instant) -> Timers {
        Timers { beginning, all: RefCell::default(), added: Cell::new(0), earliest: Cell::new(u64::MAX) }
    }

    /// A time in nanoseconds since the beginning. Times that do not fit are cut off after five
    /// hundred years.
    pub(crate) fn nanos(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.beginning).as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn add(&self, deadline: Instant, fiber: Fiber) -> Timer {
        let timer = (self.nanos(deadline), self.added.get());
        self.added.set(timer.1 + 1);
        self.change(|all| all.insert(timer, fiber));
        timer
    }

    /// Does nothing if it has been taken.
    pub(crate) fn remove(&self, timer: Timer) {
        self.change(|all| all.remove(&timer));
    }

    /// When the next timer is due, in nanoseconds since the beginning; the maximum if there is
    /// none.
    #[inline(always)]
    pub(crate) fn earliest(&self) -> u64 {
        self.earliest.get()
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        let first = *self.all.borrow().first_key_value()?.0;
        self.beginning.checked_add(Duration::from_nanos(first.0))
    }

    /// Takes a timer that is due.
    pub(crate) fn take_due(&self, now: Instant) -> Option<Fiber> {
        (self.earliest() <= self.nanos(now)).then(|| self.change(BTreeMap::pop_first)).flatten().map(|(_, fiber)| fiber)
    }

    fn change<R>(&self, change: impl FnOnce(&mut BTreeMap<Timer, Fiber>) -> R) -> R {
        let mut all = self.all.borrow_mut();
        let result = change(&mut all);
        self.earliest.set(all.first_key_value().map_or(u64::MAX, |(first, _)| first.0));
        result
    }
}
