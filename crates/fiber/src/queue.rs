//! A queue of fibers that nothing else has: a list linked through their records.

use std::cell::Cell;

use crate::record::Fiber;

/// Fibers in the order in which they came. A fiber is on one list at a time.
#[derive(Default)]
pub(crate) struct Queue {
    first: Cell<Option<Fiber>>,
    last: Cell<Option<Fiber>>,
}

// SAFETY: only the thread that has the queue touches the links of its fibers.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    #[inline]
    pub(crate) fn push(&self, fiber: Fiber) {
        let last = self.last.replace(Some(fiber));
        fiber.next.set(None);
        fiber.previous.set(last);
        match last {
            Some(last) => last.next.set(Some(fiber)),
            None => self.first.set(Some(fiber)),
        }
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<Fiber> {
        let first = self.first.get()?;
        self.remove(first);
        Some(first)
    }

    /// Removes a fiber from any place. Returns false if it is not on the list.
    #[inline]
    pub(crate) fn remove(&self, fiber: Fiber) -> bool {
        let (previous, next) = (fiber.previous.take(), fiber.next.get());
        match previous {
            Some(previous) => previous.next.set(next),
            None if self.first.get() == Some(fiber) => self.first.set(next),
            None => return false,
        }
        fiber.next.set(None);
        match next {
            Some(next) => next.previous.set(previous),
            None => self.last.set(previous),
        }
        true
    }
}
