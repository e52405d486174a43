//! Scopes: fibers that may borrow from the fiber that spawns them, because it waits for them.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::current_worker::CurrentWorker;
use crate::ending;
use crate::error::{JoinError, SpawnError};
use crate::join::JoinHandle;
use crate::spawn::{Builder, failed};
use crate::unwinding;
use crate::waiting::biased::Biased;
use crate::waiting::list::{TakenList, WaitList};
use crate::waiting::{Operation, perform_in_fiber};

/// Counts a scope's fibers.
struct Members {
    state: Biased<State>,
    /// One of them panicked, and no joiner has seen the panic. Handles that find this out may be
    /// dropped on other threads.
    panicked: AtomicBool,
}

struct State {
    /// How many of them there are.
    left: usize,
    /// The fiber that waits until there are none.
    waiting: WaitList<()>,
}

/// A wait for the end of all.
struct AllEnd<'a>(&'a Members);

impl Operation for AllEnd<'_> {
    type State = State;
    type Payload = ();
    const KIND: &'static str = "the end of a scope's fibers";
    const OBJECT: fn(&Self) -> &Biased<State> = |operation| &operation.0.state;
    const LIST: fn(&mut State) -> &mut WaitList<()> = |state| &mut state.waiting;

    fn attempt(&self, state: &mut State, (): &mut (), _: &mut TakenList<()>) -> bool {
        state.left == 0
    }
}

/// Counts one of a scope's fibers until all of it is dropped.
struct Membership<'scope>(&'scope Members);

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        CurrentWorker::enter(|here| {
            let waiter = self.0.state.enter(Some(&here), |state| {
                state.left -= 1;
                if state.left == 0 { state.waiting.pop() } else { None }
            });
            // From here on the count may be gone, if no fiber was waiting for it yet.
            if let Some(waiter) = waiter {
                waiter.wake(Some(here));
            }
        });
    }
}

/// A fiber's outcome, which its handle shares. The last owner drops it.
struct Outcome<'scope, T> {
    outcome: Mutex<Option<thread::Result<T>>>,
    members: &'scope Members,
}

impl<T> Drop for Outcome<'_, T> {
    fn drop(&mut self) {
        if let Some(Err(payload)) = self.outcome.get_mut().unwrap_or_else(PoisonError::into_inner).take()
            && let JoinError::Panicked(_) = unwinding::reason(payload)
        {
            self.members.panicked.store(true, Relaxed);
        }
    }
}

/// The function of a scope's fiber. The fields are dropped in this order, so everything that may
/// borrow is gone before the scope is told.
struct Job<'scope, F, T> {
    function: F,
    outcome: Arc<Outcome<'scope, T>>,
    membership: Membership<'scope>,
}

impl<F: FnOnce() -> T, T> Job<'_, F, T> {
    fn run(self) {
        // Variables are dropped in the opposite order.
        let Job { membership: _membership, outcome, function } = self;
        let result = catch_unwind(AssertUnwindSafe(function));
        *outcome.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

/// Spawns fibers that borrow; see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    members: &'scope Members,
    /// The lifetime may be neither shortened nor extended.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The right to the result of a scope's fiber.
pub struct ScopedJoinHandle<'scope, T> {
    end: JoinHandle<()>,
    outcome: Arc<Outcome<'scope, T>>,
}

impl<'scope> Scope<'scope, '_> {
    /// Like [`spawn`](crate::spawn), for a function that may borrow what outlives the scope.
    ///
    /// # Panics
    /// If there is no room for another fiber.
    #[track_caller]
    pub fn spawn<T: Send + 'scope>(
        &'scope self,
        function: impl FnOnce() -> T + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, T> {
        match self.spawn_with(Builder::new(), function) {
            Ok(handle) => handle,
            Err(error) => failed(&error),
        }
    }

    /// Like [`Builder::spawn`].
    ///
    /// # Errors
    /// If there is no room for another fiber.
    pub fn spawn_with<T: Send + 'scope>(
        &'scope self,
        builder: Builder,
        function: impl FnOnce() -> T + Send + 'scope,
    ) -> Result<ScopedJoinHandle<'scope, T>, SpawnError> {
        CurrentWorker::enter(|here| self.members.state.enter(Some(&here), |state| state.left += 1));
        let membership = Membership(self.members);
        let outcome = Arc::new(Outcome { outcome: Mutex::new(None), members: self.members });
        let job = Job { function, outcome: Arc::clone(&outcome), membership };
        // SAFETY: the scope waits until the job is dropped, and with it all that it borrows; the
        // job returns nothing.
        let end = unsafe { builder.spawn_unchecked(move || job.run(), |here| here.safepoint())? };
        Ok(ScopedJoinHandle { end, outcome })
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits until the fiber has ended, and takes its result.
    ///
    /// # Errors
    /// As for [`JoinHandle::join`].
    pub fn join(self) -> Result<T, JoinError> {
        self.end.join()?;
        let outcome = self.outcome.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.map_or(Err(JoinError::Cancelled), |outcome| outcome.map_err(unwinding::reason))
    }

    /// Whether the fiber has ended.
    pub fn is_finished(&self) -> bool {
        self.end.is_finished()
    }
}

/// Runs a function that may spawn fibers which borrow from its environment. Returns when it and all
/// of them have ended.
///
/// # Panics
/// If called outside a runtime; with the function's panic; and if a fiber that was not joined has
/// panicked.
///
/// ```
/// let words = ["a", "few", "words"];
/// let longest = rowlock_fiber::run(|| {
///     rowlock_fiber::scope(|scope| {
///         let lengths = words.map(|word| scope.spawn(move || word.len()));
///         lengths.into_iter().map(|length| length.join().unwrap()).max()
///     })
/// });
/// assert_eq!(longest, Some(5));
/// ```
#[track_caller]
#[allow(clippy::panic, reason = "documented, as for threads")]
pub fn scope<'env, T>(function: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    CurrentWorker::enter(|_| ());
    let state = Biased::new(State { left: 0, waiting: WaitList::new() });
    let members = Members { state, panicked: AtomicBool::new(false) };
    // SAFETY: only the lifetime differs. The function and the fibers have the reference, and the
    // code below waits for all of them in any case.
    let scope = Scope { members: unsafe { &*std::ptr::from_ref(&members) }, scope: PhantomData, env: PhantomData };
    // SAFETY: as above.
    let result = catch_unwind(AssertUnwindSafe(|| function(unsafe { &*std::ptr::from_ref(&scope) })));
    CurrentWorker::visit(|here| {
        let Some(here) = here else { crate::preempt::orphan::wait_forever() };
        let mut is_cancelled = false;
        // Even if the runtime ends meanwhile, they borrow from this fiber.
        while perform_in_fiber(&AllEnd(&members), (), None, here).is_err() {
            is_cancelled = true;
        }
        if is_cancelled {
            ending::unwind_unless_panicking();
        }
    });
    match result {
        Err(payload) => resume_unwind(payload),
        Ok(_) if members.panicked.load(Relaxed) => panic!("a fiber of a scope panicked"),
        Ok(result) => result,
    }
}
