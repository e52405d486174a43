//! A queue of fibers that nothing else has: a list linked through their records.

use crate::record::Fiber;

/// Fibers in the order in which they came. A fiber is on one list at a time.
#[derive(Default)]
pub(crate) struct Queue {
    first: Option<Fiber>,
    last: Option<Fiber>,
}

// SAFETY: only the thread that has the queue touches the links of its fibers.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { first: None, last: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Appends a fiber.
    #[inline]
    pub(crate) fn push(&mut self, fiber: Fiber) {
        fiber.next.set(None);
        fiber.previous.set(self.last);
        match self.last.replace(fiber) {
            Some(last) => last.next.set(Some(fiber)),
            None => self.first = Some(fiber),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Fiber> {
        let first = self.first?;
        self.unlink(first);
        Some(first)
    }

    /// Removes a fiber from any place. Returns false if it is not on the list.
    pub(crate) fn remove(&mut self, fiber: Fiber) -> bool {
        let is_on = fiber.previous.get().is_some() || self.first == Some(fiber);
        if is_on {
            self.unlink(fiber);
        }
        is_on
    }

    #[inline]
    fn unlink(&mut self, fiber: Fiber) {
        let (previous, next) = (fiber.previous.take(), fiber.next.take());
        match previous {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        match next {
            Some(next) => next.previous.set(previous),
            None => self.last = previous,
        }
    }
}
