//! `pthread_cond_wait`: looks whether it is signalled before it sleeps.
//!
//! The condition variable stays the C library's. Only waits without a deadline look: a wait with one is often meant to last for as
//! long as it says.
//!
//! The protocol, and why no signal is lost, is told in [`wait::lookers`]: this is who sleeps with deadlines.
//!
//! Condition variables whose addresses share a site are signalled together, which ends waits too early now and then: a spurious
//! wakeup.

use std::ffi::{c_int, c_void};

use counters::{Reason, WaitKind};
use libc::{pthread_cond_t, pthread_mutex_t, timespec};
use policy::Span;
use wait::lookers::Look;

use crate::bypass;
use crate::layout;
use crate::real_symbols::{RealSymbol, real_symbols};
use crate::settings::Settings;
use crate::site::{self, Site, Wait};

real_symbols! {
    fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int;
    fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int;
}

/// `pthread_cond_clockwait`, which C libraries before 2020 lack.
static CLOCKWAIT: RealSymbol = RealSymbol::new(c"pthread_cond_clockwait");
type Clockwait =
    unsafe extern "C-unwind" fn(*mut pthread_cond_t, *mut pthread_mutex_t, libc::clockid_t, *const timespec) -> c_int;

/// The first sleep's deadline, how each next one's grows, and the longest.
const PATIENCE: Span = Span::from_millis(2);
const GROWTH: u64 = 4;
const LONGEST: Span = Span::from_millis(8_192);

/// Looks for the originals.
pub(crate) fn resolve() {
    real::resolve();
    CLOCKWAIT.resolve();
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    if let Some(settings) = Settings::get() {
        // SAFETY: the caller has the mutex.
        let plain = unsafe { layout::Mutex::of(mutex) }.is_plain();
        match CLOCKWAIT.address() {
            _ if bypass::is_bypassed() => settings.statistics.pass_through(WaitKind::Condition, Reason::DeepBinding, 1),
            Some(clockwait) if plain => {
                // SAFETY: it is the function of this name, which has this type.
                let clockwait = unsafe { std::mem::transmute::<*mut c_void, Clockwait>(clockwait) };
                // SAFETY: the caller's own call.
                return unsafe { wait(condition, mutex, clockwait, settings) };
            }
            Some(_) => settings.statistics.pass_through(WaitKind::Condition, Reason::MutexKind, 1),
            None => settings.statistics.pass_through(WaitKind::Condition, Reason::Library, 1),
        }
    }
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_wait(condition, mutex) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
    Site::of(condition).lookers.signal();
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_signal(condition) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int {
    Site::of(condition).lookers.signal();
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_broadcast(condition) }
}

unsafe fn wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clockwait: Clockwait,
    settings: &'static Settings,
) -> c_int {
    let (site, waits) = (Site::of(condition), Wait::at(WaitKind::Condition, settings));
    if !site.decide_to_spin(&waits) {
        // SAFETY: the caller's own call.
        return waits.sleep(|| unsafe { real::pthread_cond_wait(condition, mutex) });
    }
    // A wait is where a thread can be cancelled, even if it need not wait. It has the mutex then, as here.
    // SAFETY: nothing here would have to be dropped.
    unsafe { crate::pthread_testcancel() };
    let look = site.lookers.enter();
    // SAFETY: the caller has the mutex. If not, it is told so by the original.
    if unsafe { libc::pthread_mutex_unlock(mutex) } != 0 {
        look.leave();
        // SAFETY: the caller's own call.
        return unsafe { real::pthread_cond_wait(condition, mutex) };
    }
    let came = site.spin(&waits, || look.is_signalled());
    // SAFETY: as long as somebody waits at the condition variable, its mutex is there.
    let locked = unsafe { crate::mutex::pthread_mutex_lock(mutex) };
    let result = if came || locked != 0 {
        locked
    } else {
        // SAFETY: the mutex is the caller's again.
        waits.sleep(|| unsafe { sleep(condition, mutex, clockwait, look) })
    };
    look.leave();
    result
}

/// Sleeps until signalled, by a thread that has the mutex.
unsafe fn sleep(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clockwait: Clockwait,
    look: Look<'_>,
) -> c_int {
    let mut patience = PATIENCE;
    while !look.is_signalled() {
        let until = (site::now() + patience).as_nanos();
        let until = timespec {
            tv_sec: (until / 1_000_000_000) as libc::time_t,
            tv_nsec: (until % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the caller of `pthread_cond_wait` promises that both are there, and has the mutex.
        let result = unsafe { clockwait(condition, mutex, libc::CLOCK_MONOTONIC, &raw const until) };
        if result != libc::ETIMEDOUT {
            return result;
        }
        if bypass::is_bypassed() {
            // A signal may have come that nobody counted: the program looks for itself whether there was one.
            return 0;
        }
        patience = Span::from_nanos(patience.as_nanos() * GROWTH).min(LONGEST);
    }
    0
}
