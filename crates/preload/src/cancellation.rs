//! Cleaning up after a thread that is cancelled in a real symbol.
//!
//! The handlers are those of C's `pthread_cleanup_push`, in the form that compilers used before
//! they had exceptions: the C library calls such a handler when the frame of its record is unwound,
//! also by `longjmp`. Rust does not promise to drop values then.

use std::ffi::{c_int, c_void};

use crate::real_symbols::real_symbols;

/// `struct _pthread_cleanup_buffer`
#[repr(C)]
pub(crate) struct CleanupRecord {
    handler: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut CleanupRecord,
}

real_symbols! {
    fn _pthread_cleanup_push(record: *mut CleanupRecord, handler: unsafe extern "C" fn(*mut c_void), argument: *mut c_void);
    fn _pthread_cleanup_pop(record: *mut CleanupRecord, execute: c_int);
}

/// Whether this C library has such handlers.
pub(crate) fn has_handlers() -> bool {
    real::at::_pthread_cleanup_push.address().is_some() && real::at::_pthread_cleanup_pop.address().is_some()
}

/// Calls a real symbol, and then `clean_up`, also if the thread is cancelled in it. There
/// [are handlers](has_handlers).
pub(crate) fn clean_up_after<R, F: FnMut()>(original: impl FnOnce() -> R, mut clean_up: F) -> R {
    /// # Safety
    /// The argument is a closure of this type.
    unsafe extern "C" fn call<F: FnMut()>(clean_up: *mut c_void) {
        // SAFETY: by the promise of the caller.
        unsafe { (*clean_up.cast::<F>())() }
    }
    let argument = (&raw mut clean_up).cast();
    let mut record = CleanupRecord { handler: call::<F>, argument, cancel_type: 0, previous: std::ptr::null_mut() };
    // SAFETY: record and closure stay in this frame until the record is popped, which happens
    // before the frame ends, or the frame is unwound, when the C library removes the record.
    unsafe { real::_pthread_cleanup_push(&raw mut record, call::<F>, argument) };
    let result = original();
    // SAFETY: it is the last record of this thread, as every call pops its own.
    unsafe { real::_pthread_cleanup_pop(&raw mut record, 1) };
    result
}
