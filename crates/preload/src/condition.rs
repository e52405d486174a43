//! `pthread_cond_wait`: spins for a signal before it blocks.
//!
//! The condition variable remains that of the C library. Only waits without a deadline spin: a wait
//! with a deadline is often meant to last until then.
//!
//! [`wait::spinning_waiters`] describes the protocol, why no signal is lost, and why the program
//! may destroy the condition variable as soon as POSIX allows that. The owner that it reads is the
//! one in the mutex, which the C library clears after it has counted a waiter.
//!
//! `signal` and `broadcast` are over with the real symbol, and before it they use the address only.
//! A wait that saw a signal does not touch the condition variable any more, and one that did not
//! ends with the real symbol.
//!
//! * **Cancellation**: the thread does not wait for long before the real symbol, where it can be
//!   cancelled as usual. Then [`cancellation`] removes the waiter.
//! * **Stopped threads**: a thread that signals waits for a second at most. The waiter blocks until
//!   a deadline, and then again, each time for twice as long.
//! * **Forks**: the child has one thread, so it removes all waiters.
//! * **Other processes** do not see the waiters here, so shared condition variables are passed
//!   through.
//!
//! Condition variables whose addresses share a site are signalled together, which occasionally ends
//! a wait too early: a spurious wakeup.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use counters::{Reason, WaitKind};
use libc::{pthread_cond_t, pthread_mutex_t};
use policy::Span;
use wait::spinning_waiters::Announcement;

use crate::backoff::Pauses;
use crate::bypass;
use crate::cancellation;
use crate::layout;
use crate::real_symbols::real_symbols;
use crate::settings::Settings;
use crate::site::{self, Site, Wait};

real_symbols! {
    fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
    fn pthread_cond_clockwait(
        condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: libc::clockid_t, deadline: *const libc::timespec,
    ) -> c_int;
    fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int;
    fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int;
}

/// How long a waiter blocks before it looks for a signal that a thread did not wait to deliver.
const FIRST_WAIT: Span = Span::from_millis(1_000);

/// [`layout::shared_word`], if threads can spin with this C library.
static SHARED_WORD: OnceLock<usize> = OnceLock::new();

/// Resolves the real symbols, and finds out whether threads can spin here.
pub(crate) fn prepare() {
    real::resolve();
    // The C library before version 2.30 has no such function.
    let has_functions = cancellation::has_handlers() && real::at::pthread_cond_clockwait.address().is_some();
    // SAFETY: the function only clears static memory.
    let is_prepared = has_functions && unsafe { libc::pthread_atfork(None, None, Some(site::remove_waiters)) } == 0;
    if let Some(word) = layout::shared_word().filter(|_| is_prepared) {
        SHARED_WORD.get_or_init(|| word);
    }
}

/// The reason why threads do not spin at this condition variable, if there is one.
///
/// # Safety
/// Both are initialized.
unsafe fn reason_against(condition: *const pthread_cond_t, mutex: *const pthread_mutex_t) -> Option<Reason> {
    let Some(&word) = SHARED_WORD.get() else { return Some(Reason::Library) };
    // SAFETY: this word never changes in the lowest bit, and other threads change it atomically.
    let is_shared = unsafe { AtomicU32::from_ptr(condition.cast_mut().cast::<u32>().add(word)) }.load(Relaxed) & 1 == 1;
    // SAFETY: by the promise of the caller.
    let mutex = unsafe { layout::Mutex::of(mutex) };
    if bypass::is_bypassed() {
        Some(Reason::DeepBinding)
    } else if !mutex.is_plain() || mutex.owner() == 0 {
        Some(Reason::MutexKind)
    } else {
        is_shared.then_some(Reason::ProcessShared)
    }
}

/// # Safety
/// As for the real symbol: both are initialized, and the calling thread holds the mutex.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    if let Some(settings) = Settings::get() {
        // SAFETY: by the promise of the caller.
        match unsafe { reason_against(condition, mutex) } {
            Some(reason) => settings.pass_through(WaitKind::Condition, reason),
            // SAFETY: the caller's own call.
            None => return unsafe { wait(condition, mutex, settings) },
        }
    }
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_wait(condition, mutex) }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
    signal_spinning_waiters(condition);
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_signal(condition) }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int {
    signal_spinning_waiters(condition);
    // SAFETY: the caller's own call.
    unsafe { real::pthread_cond_broadcast(condition) }
}

/// Signals the spinning waiters, and waits for those that are about to block.
fn signal_spinning_waiters(condition: *const pthread_cond_t) {
    let has_released = |seen: &Announcement| {
        let mutex = std::ptr::with_exposed_provenance(seen.mutex as usize);
        // SAFETY: a waiter announced this mutex, and the protocol keeps it from leaving.
        let is_released = unsafe { layout::Mutex::of(mutex) }.is_released_by(seen.owner as i32);
        // A signal handler of the waiter itself cannot wait for it.
        is_released || ANNOUNCED_BY.get() == seen.owner
    };
    let mut pauses = Pauses::new();
    Site::of(condition).spinning_waiters.signal(condition.addr() as u64, has_released, || pauses.pause());
}

thread_local! {
    /// The owner in an announcement of this thread; zero without one.
    static ANNOUNCED_BY: Cell<u64> = const { Cell::new(0) };
}

/// Waits. There is no [reason against](reason_against) spinning.
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
    let Some(waiter) = site.enter(&waits) else {
        // SAFETY: the caller's own call.
        return waits.sleep(|| unsafe { real::pthread_cond_wait(condition, mutex) });
    };
    let leave = || {
        ANNOUNCED_BY.set(0);
        let mut pauses = Pauses::new();
        waiter.leave(|| pauses.pause());
    };
    // SAFETY: the caller holds the mutex. If not, the real symbol reports the error.
    let (owner, unlocked) = unsafe { (layout::Mutex::of(mutex).owner(), libc::pthread_mutex_unlock(mutex)) };
    if unlocked != 0 {
        leave();
        // SAFETY: the caller's own call.
        return unsafe { real::pthread_cond_wait(condition, mutex) };
    }
    let came = site.spin(&waits, || waiter.is_signalled());
    // SAFETY: the mutex exists as long as a thread waits at the condition variable.
    let locked = unsafe { crate::mutex::pthread_mutex_lock(mutex) };
    let announcement = Announcement {
        condition: condition.addr() as u64,
        mutex: mutex.expose_provenance() as u64,
        owner: u64::from(owner.cast_unsigned()),
    };
    let is_over = || waiter.announce(announcement) || bypass::is_bypassed();
    ANNOUNCED_BY.set(announcement.owner);
    // A library that calls the C library directly does not count its signals here.
    if came || locked != 0 || is_over() {
        leave();
        return locked;
    }
    let block = || {
        let mut time = FIRST_WAIT;
        loop {
            let deadline = site::timespec((site::now() + time).as_nanos());
            // SAFETY: the thread holds the mutex again. Not all waiters have been signalled, so the
            // condition variable exists.
            let result =
                unsafe { real::pthread_cond_clockwait(condition, mutex, libc::CLOCK_MONOTONIC, &raw const deadline) };
            if result != libc::ETIMEDOUT {
                return result;
            }
            if is_over() {
                return 0;
            }
            time = time + time;
        }
    };
    waits.sleep(|| cancellation::clean_up_after(block, leave))
}
