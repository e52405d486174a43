//! Support for interfaces of this crate to other languages.

use crate::current_worker::CurrentWorker;
use crate::error::SpawnError;
use crate::join::JoinHandle;
use crate::record::Fiber;
use crate::spawn::Builder;

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
        Id { number: fiber.number, generation: fiber.generation.get() }
    }
}

/// Calls a function with the calling fiber. No other fiber of its worker interrupts the function,
/// unless it calls what may let others run. It must be short, and call no code of the program.
/// Returns `None` on a thread that runs no fibers.
#[inline(always)]
pub fn enter<R>(then: impl FnOnce(Id) -> R) -> Option<R> {
    CurrentWorker::visit(|here| here.map(|here| then(Id::of(here.current()))))
}

/// The fiber of a handle.
pub fn id<T>(handle: &JoinHandle<T>) -> Id {
    Id::of(handle.fiber())
}

/// [Spawns](Builder::spawn) a fiber, which does not run before the caller has reached a safepoint
/// or waits, if its worker is alone.
pub fn spawn<T: Send + 'static>(
    builder: Builder,
    function: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, SpawnError> {
    // SAFETY: it borrows nothing, and may move to another kernel thread.
    unsafe { builder.spawn_unchecked(function, |_| ()) }
}
