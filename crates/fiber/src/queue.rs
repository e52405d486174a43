//! Who waits for one thing: a list through the fibers' records.

use crate::record::Fiber;

/// Some fibers, in the order in which they came. A fiber is on one list at a time.
#[derive(Default)]
pub(crate) struct Queue {
    first: Option<Fiber>,
    last: Option<Fiber>,
}

// SAFETY: a list is inside a gate, and whoever is there alone touches the links of those on it.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { first: None, last: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn first(&self) -> Option<Fiber> {
        self.first
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Fiber> {
        std::iter::successors(self.first, |fiber| fiber.next.get())
    }

    /// Behind all others.
    #[inline]
    pub(crate) fn push(&mut self, fiber: Fiber) {
        fiber.next.set(None);
        fiber.previous.set(self.last);
        match self.last.replace(fiber) {
            Some(last) => last.next.set(Some(fiber)),
            None => self.first = Some(fiber),
        }
    }

    /// Before all others.
    pub(crate) fn push_front(&mut self, fiber: Fiber) {
        fiber.previous.set(None);
        fiber.next.set(self.first);
        match self.first.replace(fiber) {
            Some(first) => first.previous.set(Some(fiber)),
            None => self.last = Some(fiber),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Fiber> {
        let first = self.first?;
        self.unlink(first);
        Some(first)
    }

    /// Takes one of any place off. False where it is not on the list.
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
