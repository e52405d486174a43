//! Calls that block the kernel thread that makes them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::{self, Job};
use crate::worker::Here;

/// Calls a function on another kernel thread while this fiber waits for it and others run: for what would stop them all, such as a library that
/// waits by itself, or a long computation.
///
/// The threads are those of a pool that the whole process shares. It grows as needed up to 256, and further calls take their turn; threads that have nothing to do for five
/// seconds end. On a thread that is no fiber the function is just called. So it is, and stops the other fibers, when the kernel has no thread or descriptor left,
/// and in a fiber that unwinds because its runtime has ended.
///
/// A call cannot be called off. When the runtime ends meanwhile, the fiber unwinds, nobody waits for the call, and its result is dropped.
///
/// # Panics
/// With the function's panic.
///
/// ```
/// let answer = rowlock_fiber::run(|| rowlock_fiber::blocking(|| "from another kernel thread"));
/// assert_eq!(answer, "from another kernel thread");
/// ```
pub fn blocking<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> T {
    let is_wait_forbidden = |here: Here| here.outside.is_wait_forbidden(&here) || here.outside.reactor().is_err();
    if Here::visit(|here| here.is_none_or(is_wait_forbidden)) {
        return function();
    }
    let outcome = Arc::new(Mutex::new(None));
    let mut refused: Option<Job> = None;
    let theirs = Arc::clone(&outcome);
    let submit = |answer| {
        // The answer is dropped behind the result, whatever happens.
        let job = Box::new(move || {
            let _answer = answer;
            let result = catch_unwind(AssertUnwindSafe(function));
            *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        refused = pool::submit(job).err();
        refused.is_none()
    };
    let called = Here::enter(|here| match here.outside.reactor() {
        Ok(reactor) => here.outside.calls.call(here, reactor.eventcount(), submit),
        Err(_) => unreachable!("there is one, which stays"),
    });
    if let Some(job) = refused {
        debug_assert!(!called);
        job();
    }
    let result = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    match result {
        Some(Ok(result)) => result,
        Some(Err(payload)) => resume_unwind(payload),
        None => unreachable!("it was carried out"),
    }
}
