//! What a blocked fiber waits for, and why it was woken.

use crate::record::Fiber;

/// Why a fiber was woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The awaited event has happened.
    #[default]
    Called,
    /// Its deadline has passed.
    TimedOut,
    /// The runtime ends: the fiber must unwind.
    Cancelled,
}

/// Something for which a fiber waits.
///
/// Only the thread that takes a fiber off its list wakes it: a fiber is woken once each time it
/// blocks.
pub(crate) trait Waitable {
    /// Takes the waiting fiber off the list. Returns false if another thread has done so already,
    /// and will wake it.
    fn leave(&self, fiber: Fiber) -> bool;

    /// Whether the fiber is in a call of the C library, which cannot be unwound.
    fn is_in_c_library(&self) -> bool {
        false
    }

    /// Whether such a call fails if the runtime ends, instead of waiting on in an orphaned fiber.
    fn fails_at_end(&self) -> bool {
        false
    }

    /// Its name in a word or two: "a mutex".
    fn kind(&self) -> &'static str;

    /// The fiber that alone can end the wait, if there is one.
    fn blocker(&self) -> Option<Fiber> {
        None
    }

    /// Moves the fiber, which has been raised to a higher level. Returns the fiber that it waits
    /// for, if that inherits its level.
    fn requeue_raised(&self, _: Fiber) -> Option<Fiber> {
        None
    }
}
