//! Where the C library says that the stack of a fiber is.
//!
//! `pthread_getattr_np` fails for a thread control block without a kernel thread, whose CPUs it
//! cannot find out.

use std::ffi::c_int;

use libc::{pthread_attr_t, pthread_t};

use super::{Outcome, interposed};
use crate::current_worker::CurrentWorker;
use crate::fiber_thread;

interposed! {
    fn pthread_getattr_np(thread: pthread_t, attributes: *mut pthread_attr_t) -> c_int = of_fiber(thread, attributes);
}

/// `None` unless the thread is the calling fiber, without a kernel thread of its own.
///
/// # Safety
/// As for the function of the C library.
unsafe fn of_fiber(thread: pthread_t, attributes: *mut pthread_attr_t) -> Option<Outcome> {
    // SAFETY: the state is the calling fiber's, and the rest is the caller's promise.
    unsafe {
        let is_caller = thread == libc::pthread_self();
        fiber_thread::current().filter(|state| is_caller && state.as_ref().control_block().thread().is_none())?;
        let stack = CurrentWorker::visit(|here| here.and_then(|here| here.current().stack.get()))?;
        let low = stack.top().wrapping_sub(stack.size());
        let error = match libc::pthread_attr_init(attributes) {
            0 => libc::pthread_attr_setstack(attributes, low.cast(), stack.size() / 16 * 16),
            error => error,
        };
        Some(Ok(error.into()))
    }
}
