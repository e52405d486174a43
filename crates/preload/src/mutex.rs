//! `pthread_mutex_lock`: spins for the release of the mutex before it blocks.
//!
//! The mutex remains that of the C library. A spinning thread acquires it by the real `trylock`; a
//! thread that gives up spinning calls the real `lock`, which blocks.
//!
//! A thread that waits keeps the program from destroying the mutex until it has had it. Once it has
//! acquired the mutex, it does not touch it any more here.

use std::ffi::c_int;

use counters::{Reason, WaitKind};
use libc::pthread_mutex_t;

use crate::layout;
use crate::real_symbols::real_symbols;
use crate::settings::Settings;
use crate::site::{Site, Wait};

real_symbols! {
    fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int;
}

/// # Safety
/// As for the real symbol: the mutex is initialized, and not destroyed before the call returns.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller has initialized it.
    if unsafe { layout::Mutex::of(mutex) }.is_free() {
        // SAFETY: the caller's own call.
        return unsafe { real::pthread_mutex_lock(mutex) };
    }
    // SAFETY: as above.
    unsafe { contended(mutex) }
}

/// # Safety
/// As for [`pthread_mutex_lock`].
#[cold]
unsafe fn contended(mutex: *mut pthread_mutex_t) -> c_int {
    let Some(settings) = Settings::get() else {
        // SAFETY: the caller's own call.
        return unsafe { real::pthread_mutex_lock(mutex) };
    };
    // SAFETY: the caller of `lock` has initialized it, and does not destroy it while it waits.
    let seen = unsafe { layout::Mutex::of(mutex) };
    if !seen.is_plain() {
        settings.pass_through(WaitKind::Mutex, Reason::MutexKind);
        // SAFETY: the caller's own call.
        return unsafe { real::pthread_mutex_lock(mutex) };
    }
    let wait = Wait::at(WaitKind::Mutex, settings);
    // SAFETY: as above.
    let taken = || seen.is_free() && unsafe { libc::pthread_mutex_trylock(mutex) } == 0;
    if Site::of(mutex).spin_if_worthwhile(&wait, taken) {
        return 0;
    }
    // SAFETY: the caller's own call.
    wait.sleep(|| unsafe { real::pthread_mutex_lock(mutex) })
}
