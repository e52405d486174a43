//! Support for interfaces of this crate to other languages.

use crate::join::JoinHandle;
use crate::record::Fiber;
use crate::worker::CurrentWorker;

/// Identifies a fiber: no other one of its runtime has both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// Its index among the runtime's fibers: small, and reused.
    pub number: u32,
    /// How many fibers had the index before.
    pub generation: u32,
}

impl Id {
    fn of(fiber: Fiber) -> Id {
        Id { number: fiber.number.get(), generation: fiber.generation.get() }
    }
}

/// The calling fiber; `None` on a thread that runs no fibers.
#[inline(always)]
pub fn current() -> Option<Id> {
    CurrentWorker::visit(|here| here.map(|here| Id::of(here.current())))
}

/// The fiber of a handle.
pub fn id<T>(handle: &JoinHandle<T>) -> Id {
    Id::of(handle.fiber())
}
