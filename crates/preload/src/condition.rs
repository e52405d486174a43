//! `pthread_cond_wait`: spins for a signal before it blocks.
//!
//! The condition variable remains that of the C library. Only waits without a deadline spin: a wait
//! with a deadline is often meant to last until then.
//!
//! [`wait::spinning_waiters`] describes the protocol, and why no signal is lost. This module blocks
//! with deadlines.
//!
//! Condition variables whose addresses share a site are signalled together, which occasionally ends
//! a wait too early: a spurious wakeup.

use std::ffi::c_int;

use counters::{Reason, WaitKind};
use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, timespec};
use policy::Span;
use wait::spinning_waiters::SpinningWaiter;

use crate::bypass;
use crate::layout;
use crate::real_symbols::real_symbols;
use crate::settings::Settings;
use crate::site::{self, Site, Wait};

real_symbols! {
    fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int;
    fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int;
    // C libraries before 2020 lack this one.
    fn pthread_cond_clockwait(
        condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, until: *const timespec,
    ) -> c_int;
}

/// The first deadline of a blocked wait, its growth factor, and the longest deadline.
const FIRST_TIMEOUT: Span = Span::from_millis(2);
const TIMEOUT_GROWTH: u64 = 4;
const LONGEST_TIMEOUT: Span = Span::from_millis(8_192);

/// # Safety
/// As for the real symbol: both are initialized, and the calling thread holds the mutex.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    if let Some(settings) = Settings::get() {
        // SAFETY: the caller has the mutex.
        let plain = unsafe { layout::Mutex::of(mutex) }.is_plain();
        match real::at::pthread_cond_clockwait.address() {
            _ if bypass::is_bypassed() => settings.pass_through(WaitKind::Condition, Reason::DeepBinding),
            // SAFETY: the caller's own call.
            Some(_) if plain => return unsafe { wait(condition, mutex, settings) },
            Some(_) => settings.pass_through(WaitKind::Condition, Reason::MutexKind),
            None => settings.pass_through(WaitKind::Condition, Reason::Library),
        }
    }
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_wait(condition, mutex) }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
    Site::of(condition).spinning_waiters.signal();
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_signal(condition) }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int {
    Site::of(condition).spinning_waiters.signal();
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_broadcast(condition) }
}

/// Waits. There is a `pthread_cond_clockwait`.
///
/// # Safety
/// As for [`pthread_cond_wait`].
unsafe fn wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, settings: &'static Settings) -> c_int {
    let (site, waits) = (Site::of(condition), Wait::at(WaitKind::Condition, settings));
    if !site.decide_to_spin(&waits) {
        // SAFETY: the caller's own call.
        return waits.sleep(|| unsafe { real::pthread_cond_wait(condition, mutex) });
    }
    // `pthread_cond_wait` is a cancellation point even if it need not wait. The thread holds the
    // mutex then, as here.
    // SAFETY: no value here would have to be dropped.
    unsafe { crate::pthread_testcancel() };
    let waiter = site.spinning_waiters.enter();
    // SAFETY: the caller holds the mutex. If not, the real symbol reports the error.
    if unsafe { libc::pthread_mutex_unlock(mutex) } != 0 {
        waiter.leave();
        // SAFETY: the caller's own call.
        return unsafe { real::pthread_cond_wait(condition, mutex) };
    }
    let came = site.spin(&waits, || waiter.is_signalled());
    // SAFETY: the mutex exists as long as a thread waits at the condition variable.
    let locked = unsafe { crate::mutex::pthread_mutex_lock(mutex) };
    let result = if came || locked != 0 {
        locked
    } else {
        // SAFETY: the caller holds the mutex again.
        waits.sleep(|| unsafe { sleep(condition, mutex, waiter) })
    };
    waiter.leave();
    result
}

/// Blocks until signalled. The thread holds the mutex.
///
/// # Safety
/// As for [`pthread_cond_wait`].
unsafe fn sleep(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, waiter: SpinningWaiter<'_>) -> c_int {
    let mut timeout = FIRST_TIMEOUT;
    while !waiter.is_signalled() {
        let until = site::timespec((site::now() + timeout).as_nanos());
        // SAFETY: the caller of `pthread_cond_wait` promises that both exist, and holds the mutex.
        let result = unsafe { real::pthread_cond_clockwait(condition, mutex, libc::CLOCK_MONOTONIC, &raw const until) };
        if result != libc::ETIMEDOUT {
            return result;
        }
        if bypass::is_bypassed() {
            // A signal may have come that was not counted: the program checks its condition itself.
            return 0;
        }
        timeout = Span::from_nanos(timeout.as_nanos() * TIMEOUT_GROWTH).min(LONGEST_TIMEOUT);
    }
    0
}
