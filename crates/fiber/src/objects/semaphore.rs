//! A semaphore.
//!
//! Waiters come in the order in which they began to wait. A permit that is released while others
//! wait goes to the first of them at once, and no other can come in between. So none starves; and a
//! fiber that releases the last permit and wants it again waits for its turn.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::TimedOut;
use crate::time::after;
use crate::waiting::biased::Biased;
use crate::waiting::list::{TakenList, WaitList};
use crate::waiting::{self, Operation, Performing};

/// A number of permits. A fiber, thread or future that wants one while there is none waits.
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
pub struct Semaphore(Biased<State>);

struct State {
    permits: usize,
    /// If there is a waiter, there are no permits.
    waiting: WaitList<()>,
}

impl Semaphore {
    /// A semaphore with this many permits.
    pub const fn new(permits: usize) -> Semaphore {
        Semaphore(Biased::new(State { permits, waiting: WaitList::new() }))
    }

    /// Waits until there is a permit and acquires it. Dropping the result releases it.
    #[inline]
    pub fn acquire(&self) -> Permit<'_> {
        waiting::perform(&Acquire(self), ());
        Permit { semaphore: self }
    }

    /// Like [`Semaphore::acquire`], but waits only until the deadline.
    ///
    /// # Errors
    /// If the deadline has passed. An available permit is acquired even after the deadline.
    pub fn acquire_until(&self, deadline: Instant) -> Result<Permit<'_>, TimedOut> {
        let acquired = waiting::perform_until(&Acquire(self), (), Some(deadline));
        acquired.map(|()| Permit { semaphore: self }).map_err(|()| TimedOut)
    }

    /// Like [`Semaphore::acquire_until`], with a timeout that starts now.
    ///
    /// # Errors
    /// As for [`Semaphore::acquire_until`].
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Permit<'_>, TimedOut> {
        self.acquire_until(after(timeout))
    }

    /// Like [`Semaphore::acquire`], in a future. If that is dropped before, it acquires none.
    pub async fn acquire_async(&self) -> Permit<'_> {
        Performing::new(Acquire(self), ()).await;
        Permit { semaphore: self }
    }

    /// Acquires a permit if there is one. Never waits, but other fibers may run first.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        waiting::attempt(&Acquire(self), ()).ok().map(|()| Permit { semaphore: self })
    }

    /// Adds permits: new ones, or those that were [forgotten](Permit::forget).
    #[inline]
    pub fn release(&self, permits: usize) {
        self.change(|state, woken| {
            state.permits += permits;
            while state.permits > 0
                && let Some(waiter) = state.waiting.pop()
            {
                state.permits -= 1;
                woken.push(waiter);
            }
        });
    }

    /// How many permits there are now.
    pub fn available(&self) -> usize {
        self.change(|state, _| state.permits)
    }

    #[inline]
    fn change<R>(&self, change: impl FnOnce(&mut State, &mut TakenList<()>) -> R) -> R {
        waiting::change(&self.0, change)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available", &self.available()).finish_non_exhaustive()
    }
}

struct Acquire<'a>(&'a Semaphore);

impl Operation for Acquire<'_> {
    type State = State;
    type Payload = ();
    const KIND: &'static str = "a semaphore";
    const OBJECT: fn(&Self) -> &Biased<State> = |operation| &operation.0.0;
    const LIST: fn(&mut State) -> &mut WaitList<()> = |state| &mut state.waiting;

    fn attempt(&self, state: &mut State, (): &mut (), _: &mut TakenList<()>) -> bool {
        let can = state.permits > 0;
        state.permits -= usize::from(can);
        can
    }

    fn undo(&self, (): ()) {
        self.0.release(1);
    }
}

/// A permit of a [`Semaphore`]; dropping it releases it.
#[must_use = "the permit is released as soon as it is dropped"]
#[derive(Debug)]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl Permit<'_> {
    /// Does not release it: the semaphore has one permit less, until a caller
    /// [releases](Semaphore::release) one more.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.release(1);
    }
}
