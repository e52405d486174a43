//! What a fiber may wait for, and why it was woken.

use crate::record::Fiber;
use crate::worker::Worker;

/// Why a fiber was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// By what it waited for.
    Called,
    /// Its deadline has passed.
    TimedOut,
    /// The runtime ends: it is to unwind.
    Cancelled,
}

/// Something that fibers wait for.
///
/// Whoever takes a fiber off its list wakes it, and nobody else does: a fiber is woken once for each time it blocks.
pub(crate) trait Waits {
    /// Takes a fiber that waits here off its list. False where somebody else has done so already, who then wakes it.
    fn leave(&self, fiber: Fiber) -> bool;

    /// What it is, in a word or two: "a mutex".
    fn kind(&self) -> &'static str;

    /// Whose doing would end the wait, where one fiber alone could.
    fn blocker(&self) -> Option<Fiber> {
        None
    }

    /// A fiber that waits here is at a higher level now: moves it up where that counts. For whose doing it waits, if that one counts as of its level.
    fn requeue_raised(&self, _: Fiber, _: &Worker) -> Option<Fiber> {
        None
    }

    /// Whose end it is, if it is that.
    fn ends(&self) -> Option<Fiber> {
        None
    }
}
