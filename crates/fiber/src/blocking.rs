//! Calls that block a kernel thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::{self, Job};
use crate::worker::CurrentWorker;

/// Calls a function on another kernel thread while this fiber waits and others run. For calls that
/// would stop them all, such as those of a library that blocks, or a long computation.
///
/// The threads belong to a pool that the whole process shares. It grows as needed up to 256, and
/// further calls wait for their turn. Threads that have nothing to do for five seconds end. On a
/// thread that runs no fibers the function is simply called. It is also called directly, and stops
/// the other fibers, if the kernel has no thread or descriptor left, and in a fiber that unwinds
/// because its runtime has ended.
///
/// A call cannot be cancelled. If the runtime ends meanwhile, the fiber unwinds without waiting for
/// the call, and its result is dropped.
///
/// # Panics
/// With the function's panic.
///
/// ```
/// let answer = rowlock_fiber::run(|| rowlock_fiber::blocking(|| "from another kernel thread"));
/// assert_eq!(answer, "from another kernel thread");
/// ```
pub fn blocking<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> T {
    let is_wait_forbidden = |here: CurrentWorker| here.outside.is_wait_forbidden() || here.outside.reactor().is_err();
    if CurrentWorker::visit(|here| here.is_none_or(is_wait_forbidden)) {
        return function();
    }
    let outcome = Arc::new(Mutex::new(None));
    let mut refused: Option<Job> = None;
    let theirs = Arc::clone(&outcome);
    let submit = |answer| {
        // The answer is dropped after the result, whatever happens.
        let job = Box::new(move || {
            let _answer = answer;
            let result = catch_unwind(AssertUnwindSafe(function));
            *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        refused = pool::submit(job).err();
        refused.is_none()
    };
    let called = CurrentWorker::enter(|here| match here.outside.reactor() {
        Ok(reactor) => here.outside.calls.call(here, reactor.eventcount(), submit),
        Err(_) => unreachable!("it exists, and is never removed"),
    });
    if let Some(job) = refused {
        debug_assert!(!called);
        job();
    }
    let result = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    match result {
        Some(Ok(result)) => result,
        Some(Err(payload)) => resume_unwind(payload),
        None => unreachable!("the call is done"),
    }
}
