//! Events.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

use c_abi::{Failure, Statistics, create_by_rule, given, status, store, write_statistics};
use wait::Reset;

use crate::argument;

/// An event, at which threads wait until it is set.
pub struct Event(wait::Event);

/// Creates an event that is not set, whose threads wait by this rule (NULL: "adaptive"). If
/// `manual_reset` is false, the first thread that passes resets it. Otherwise all threads pass
/// until `rowlock_event_reset` resets it.
///
/// Returns 0, or EINVAL if `event` is NULL or `rule` is not a rule; then `*event` is NULL.
///
/// # Safety
/// `rule` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rowlock_event_create(
    event: Option<&mut MaybeUninit<Option<Box<Event>>>>,
    manual_reset: bool,
    rule: *const c_char,
) -> c_int {
    let reset = if manual_reset { Reset::Manual } else { Reset::Auto };
    // SAFETY: the caller guarantees it.
    unsafe { create_by_rule(event, "event", rule, |waiting| Ok(Event(wait::Event::with(reset, waiting)))) }
}

/// Frees an event that no thread uses any more: all calls have returned. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_event_destroy(event: Option<Box<Event>>) {
    drop(event);
}

/// Sets the event. Never waits.
///
/// Returns 0, or EINVAL if `event` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_event_set(event: Option<&Event>) -> c_int {
    status(|| given(event, "event").map(|event| event.0.set()))
}

/// Resets the event. Stores in `*was_set` whether it was set, unless that is NULL. Never waits.
///
/// Returns 0, or EINVAL if `event` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_event_reset(event: Option<&Event>, was_set: Option<&mut MaybeUninit<bool>>) -> c_int {
    store(was_set, || Ok(given(event, "event")?.0.reset()))
}

/// Waits until the event is set.
///
/// Returns 0, or EINVAL if `event` is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_event_wait(event: Option<&Event>) -> c_int {
    status(|| given(event, "event").map(|event| event.0.wait()))
}

/// Passes if the event is set, without waiting.
///
/// Returns 0, EBUSY if it is not set, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_event_trywait(event: Option<&Event>) -> c_int {
    status(|| given(event, "event")?.0.try_wait().then_some(()).ok_or_else(Failure::would_block))
}

/// Like `rowlock_event_wait`, but waits at most until `CLOCK_MONOTONIC` reaches `deadline`.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_event_wait_until(event: Option<&Event>, deadline: Option<&libc::timespec>) -> c_int {
    status(|| Ok(given(event, "event")?.0.wait_timeout(argument::until(deadline)?)?))
}

/// Like `rowlock_event_wait`, but waits at most this number of nanoseconds.
///
/// Returns 0, ETIMEDOUT, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_event_wait_timeout(event: Option<&Event>, nanoseconds: u64) -> c_int {
    status(|| Ok(given(event, "event")?.0.wait_timeout(Duration::from_nanos(nanoseconds))?))
}

/// Stores the counts of all waits so far in `*statistics`.
///
/// Returns 0, or EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn rowlock_event_statistics(
    event: Option<&Event>,
    statistics: Option<&mut MaybeUninit<Statistics>>,
) -> c_int {
    status(|| write_statistics(statistics, given(event, "event")?.0.statistics()))
}
