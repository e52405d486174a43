//! `sem_wait`: spins for a post before it blocks. The semaphore remains that of the C library.
//!
//! A wait ends with a successful `trywait` or with the real symbol, after which the thread, or
//! another that knows of it, may destroy the semaphore: only its address is used after that.

use std::ffi::c_int;

use counters::WaitKind;
use libc::sem_t;

use crate::real_symbols::real_symbols;
use crate::settings::Settings;
use crate::site::{Site, Wait};
use crate::{errno, set_errno};

real_symbols! {
    fn sem_wait(semaphore: *mut sem_t) -> c_int;
}

/// # Safety
/// As for the real symbol: the semaphore is initialized, and not destroyed before the call returns.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    let Some(settings) = Settings::get() else {
        // SAFETY: the caller's own call.
        return unsafe { real::sem_wait(semaphore) };
    };
    // `sem_wait` is a cancellation point even if it need not wait.
    // SAFETY: no value here would have to be dropped.
    unsafe { crate::pthread_testcancel() };
    let errno = errno();
    // SAFETY: the caller has initialized it, and does not destroy it while it waits.
    let taken = || unsafe { libc::sem_trywait(semaphore) } == 0;
    if taken() {
        return 0;
    }
    let wait = Wait::at(WaitKind::Semaphore, settings);
    let came = Site::of(semaphore).spin_if_worthwhile(&wait, taken);
    set_errno(errno);
    if came {
        return 0;
    }
    // SAFETY: the caller's own call.
    wait.sleep(|| unsafe { real::sem_wait(semaphore) })
}
