//! Where the C library says that the stack of a fiber is.
//!
//! `pthread_getattr_np` fails for a thread control block without a kernel thread, whose CPUs it
//! cannot find out. So this definition replaces it, as a definition in an executable does.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use crate::current_worker::CurrentWorker;
use crate::fiber_thread::{self, FiberThread};

/// # Safety
/// As for the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getattr_np(thread: libc::pthread_t, attributes: *mut libc::pthread_attr_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        // At the start of a program, even a sanitizer calls this.
        // The state is the calling fiber's.
        let has_own = |state: NonNull<FiberThread>| state.as_ref().control_block().thread().is_some();
        if fiber_thread::current().is_none_or(has_own) || thread != libc::pthread_self() {
            return real(thread, attributes);
        }
        let stack = CurrentWorker::visit(|here| here.and_then(|here| here.current().stack.get()));
        let Some(stack) = stack else { return real(thread, attributes) };
        let low = stack.top().wrapping_sub(stack.size()).cast::<c_void>();
        match libc::pthread_attr_init(attributes) {
            0 => libc::pthread_attr_setstack(attributes, low, stack.size() / 16 * 16),
            error => error,
        }
    }
}

/// Calls the function of the C library.
///
/// # Safety
/// As for that.
unsafe fn real(thread: libc::pthread_t, attributes: *mut libc::pthread_attr_t) -> c_int {
    type Function = unsafe extern "C" fn(libc::pthread_t, *mut libc::pthread_attr_t) -> c_int;
    static FUNCTION: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: the name is a string, and a function of that name has this type.
    unsafe {
        if FUNCTION.load(Relaxed).is_null() {
            FUNCTION.store(libc::dlsym(libc::RTLD_NEXT, c"pthread_getattr_np".as_ptr()), Relaxed);
        }
        match std::mem::transmute::<*mut c_void, Option<Function>>(FUNCTION.load(Relaxed)) {
            Some(function) => function(thread, attributes),
            None => libc::ENOSYS,
        }
    }
}
