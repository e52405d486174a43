//! The words of a semaphore, in one process or in shared memory.

use policy::Instant;

use crate::deadline::TimedOut;
use crate::protocol::counted_futex::CountedFutex;
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::sync::{self, Scope};
use crate::waiting::Waiting;

/// The semaphore would have more than `u32::MAX` permits. Its number is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{permits} permits and {more} more are more than a semaphore can count")]
pub struct Overflow {
    /// The number of permits.
    pub permits: u32,
    /// The number to be added.
    pub more: u32,
}

/// The memory of a semaphore: without pointers, and valid as zeros, when it has no permits.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawSemaphore {
    permits: CountedFutex,
    pub(crate) wait_state: WaitState,
}

impl RawSemaphore {
    sync::const_fn! {
        pub(crate) fn new(permits: u32) -> RawSemaphore {
            RawSemaphore { permits: CountedFutex::new(permits), wait_state: WaitState::new() }
        }
    }

    #[inline]
    pub(crate) fn value(&self) -> u32 {
        self.permits.value()
    }

    #[inline]
    pub(crate) fn try_down(&self) -> Option<u32> {
        self.permits.change(|permits| permits.checked_sub(1)).map(|change| change.after).ok()
    }

    #[inline]
    pub(crate) fn down(&self, waiting: Waiting, scope: Scope, deadline: Option<Instant>) -> Result<u32, TimedOut> {
        if let Some(left) = self.try_down() {
            return Ok(left);
        }
        let mut permit = self.permit(scope);
        self.wait_state.wait(&mut permit, waiting, deadline)?;
        Ok(permit.left)
    }

    #[inline]
    pub(crate) fn up_by(&self, more: u32, scope: Scope) -> Result<u32, Overflow> {
        let change = self.permits.change(|permits| permits.checked_add(more));
        let change = change.map_err(|permits| Overflow { permits, more })?;
        self.permits.wake(more, change, scope);
        Ok(change.after)
    }

    /// The next permit for the caller.
    pub(crate) fn permit(&self, scope: Scope) -> Permit<'_> {
        Permit { semaphore: self, scope, left: 0 }
    }
}

/// A permit to wait for.
pub(crate) struct Permit<'a> {
    semaphore: &'a RawSemaphore,
    scope: Scope,
    /// The number of permits left when it was acquired.
    pub(crate) left: u32,
}

impl Awaited for Permit<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.semaphore.try_down().inspect(|&left| self.left = left).is_some()
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.semaphore.permits.sleep(|permits| permits == 0, deadline, self.scope);
    }
}
