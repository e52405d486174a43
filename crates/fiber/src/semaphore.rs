//! A semaphore for fibers.
//!
//! Waiters come in the order in which they began to wait. A permit that is released while fibers
//! wait goes to the first of them at once, and no other fiber can come in between. So no fiber
//! starves; and a fiber that releases the last permit and wants it again waits for its turn.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::gate::{Gate, Gated};
use crate::queue::Queue;
use crate::record::Fiber;
use crate::time::after;
use crate::waits::{Waitable, Woken};
use crate::worker::{CurrentWorker, Worker};

/// A number of permits. A fiber that wants one while there is none waits, and lets others run.
///
/// # Panics
/// Acquiring and releasing panic on a kernel thread that runs no fibers, and in a runtime to which
/// the semaphore does not belong.
///
/// ```
/// use rowlock_fiber::{Semaphore, scope};
///
/// rowlock_fiber::run(|| {
///     let two = Semaphore::new(2);
///     scope(|scope| {
///         for _ in 0..10 {
///             scope.spawn(|| {
///                 let _permit = two.acquire();
///                 assert!(two.available() < 2);
///             });
///         }
///     });
///     assert_eq!(two.available(), 2);
/// });
/// ```
pub struct Semaphore(Gate<State>);

struct State {
    permits: usize,
    /// If a fiber waits, there are no permits.
    waiting: Queue,
}

impl Gated for State {
    fn forget_fibers(&mut self) {
        self.waiting.forget_fibers();
    }
}

impl Semaphore {
    /// A semaphore with this many permits.
    pub const fn new(permits: usize) -> Semaphore {
        Semaphore(Gate::new(State { permits, waiting: Queue::new() }))
    }

    /// Waits until there is a permit and acquires it. Dropping the result releases it.
    #[inline]
    #[track_caller]
    pub fn acquire(&self) -> Permit<'_> {
        // Without a deadline it always succeeds.
        let _ = self.acquire_inner(None);
        self.permit()
    }

    /// Like [`Semaphore::acquire`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed. An available permit is acquired even after the deadline.
    #[track_caller]
    pub fn acquire_until(&self, deadline: Instant) -> Result<Permit<'_>, TimedOut> {
        self.acquire_inner(Some(deadline)).map(|()| self.permit())
    }

    /// Like [`Semaphore::acquire_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Semaphore::acquire_until`].
    #[track_caller]
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Permit<'_>, TimedOut> {
        self.acquire_until(after(timeout))
    }

    /// Acquires a permit if there is one. Never waits, but other fibers may run first.
    #[track_caller]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        let taken = CurrentWorker::enter(|here| {
            here.safepoint();
            self.0.enter(&here, State::take)
        });
        taken.then(|| self.permit())
    }

    #[inline]
    #[track_caller]
    fn acquire_inner(&self, deadline: Option<Instant>) -> Result<(), TimedOut> {
        CurrentWorker::enter(|here| {
            here.safepoint();
            let me = here.current();
            let taken = self.0.enter(&here, |state| {
                let taken = state.take();
                if !taken {
                    state.waiting.push(me);
                }
                taken
            });
            if taken || here.block(self, deadline) != Woken::TimedOut { Ok(()) } else { Err(TimedOut) }
        })
    }

    fn permit(&self) -> Permit<'_> {
        Permit { semaphore: self, on_this_thread: PhantomData }
    }

    /// Adds permits: new ones, or those that were [forgotten](Permit::forget).
    #[inline]
    #[track_caller]
    pub fn release(&self, permits: usize) {
        CurrentWorker::enter(|here| self.give(&here, permits));
    }

    #[inline]
    fn give(&self, here: &Worker, permits: usize) {
        self.0.enter(here, |state| {
            let mut left = permits;
            while left > 0
                && let Some(fiber) = state.waiting.pop()
            {
                left -= 1;
                here.wake(fiber, Woken::Called);
            }
            state.permits += left;
        });
    }

    /// How many permits there are now.
    #[track_caller]
    pub fn available(&self) -> usize {
        CurrentWorker::enter(|here| self.0.enter(&here, |state| state.permits))
    }
}

impl State {
    #[inline]
    fn take(&mut self) -> bool {
        let any = self.permits > 0;
        self.permits -= usize::from(any);
        any
    }
}

impl Waitable for Semaphore {
    fn leave(&self, fiber: Fiber) -> bool {
        self.0.enter(&CurrentWorker::expect(), |state| state.waiting.remove(fiber))
    }

    fn kind(&self) -> &'static str {
        "a semaphore"
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").finish_non_exhaustive()
    }
}

/// A permit of a [`Semaphore`]; dropping it releases it. It belongs to the fiber that acquired it.
/// To pass one on, [forget](Permit::forget) it and let the other fiber
/// [release](Semaphore::release) it.
#[must_use = "the permit is released as soon as it is dropped"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    on_this_thread: PhantomData<*mut ()>,
}

impl Permit<'_> {
    /// Does not release it: the semaphore has one permit less, until a fiber
    /// [releases](Semaphore::release) one more.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // A permit that was kept until its runtime was over is forgotten.
        CurrentWorker::visit(|here| {
            if let Some(here) = here.filter(|here| self.semaphore.0.is_home(here)) {
                self.semaphore.give(&here, 1);
            }
        });
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}
