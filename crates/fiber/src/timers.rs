//! Who wakes when.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use crate::record::Fiber;

/// Which of the timers: no two are alike.
pub(crate) type Timer = (Instant, u64);

/// The timers of a worker.
#[derive(Default)]
pub(crate) struct Timers {
    all: RefCell<(u64, BTreeMap<Timer, Fiber>)>,
}

impl Timers {
    pub(crate) fn add(&self, deadline: Instant, fiber: Fiber) -> Timer {
        let (count, all) = &mut *self.all.borrow_mut();
        *count += 1;
        all.insert((deadline, *count), fiber);
        (deadline, *count)
    }

    /// Does nothing if it has been taken.
    pub(crate) fn remove(&self, timer: Timer) {
        self.all.borrow_mut().1.remove(&timer);
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        Some(self.all.borrow().1.first_key_value()?.0.0)
    }

    /// One that is due.
    pub(crate) fn take_due(&self, now: Instant) -> Option<Fiber> {
        let all = &mut self.all.borrow_mut().1;
        let first = all.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}
