//! A queue of waiting fibers: a list linked through the fibers' records.

use policy::feedback::Level;

use crate::gate::Gated;
use crate::record::Fiber;

/// Fibers in the order in which they came. A fiber is on one list at a time.
#[derive(Default)]
pub(crate) struct Queue {
    first: Option<Fiber>,
    last: Option<Fiber>,
}

// SAFETY: a list is inside a gate, and only the thread that has entered it touches the links of its
// fibers.
unsafe impl Send for Queue {}

impl Gated for Queue {
    fn forget_fibers(&mut self) {
        *self = Queue::new();
    }
}

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

    /// Inserts a fiber behind the last one of its level or a higher one, or, with `first`, before
    /// the first one of its level or a lower one. Levels are the current ones; the list is in their
    /// order. Looks at the last fiber, and only then at those before it.
    pub(crate) fn insert(&mut self, fiber: Fiber, first: bool, level: impl Fn(Fiber) -> Level) {
        let mine = level(fiber);
        let is_before = |other: &Fiber| mine < level(*other) || first && mine == level(*other);
        if !self.last.as_ref().is_some_and(is_before) {
            return self.push(fiber);
        }
        let Some(next) = self.iter().find(is_before) else { unreachable!("the last one matches") };
        let previous = next.previous.replace(Some(fiber));
        fiber.previous.set(previous);
        fiber.next.set(Some(next));
        match previous {
            Some(previous) => previous.next.set(Some(fiber)),
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
