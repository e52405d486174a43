//! Sleeps, and letting others run.

use std::time::Duration;

use libc::{c_int, c_uint, clockid_t, timespec, useconds_t};

use super::{Outcome, in_fiber, interposed};
use crate::time::{self, Asleep};
use crate::waitable::Woken;

/// The time from now to a time of a clock, or this time itself without a clock. `None` if it is
/// invalid.
pub(super) fn ahead(time: &timespec, of: Option<clockid_t>) -> Option<Duration> {
    let valid = |time: &timespec| {
        let nanos = u32::try_from(time.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanos))
    };
    let time = valid(time)?;
    let Some(clock) = of else { return Some(time) };
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the variable.
    (unsafe { libc::clock_gettime(clock, &raw mut now) } == 0).then_some(())?;
    Some(time.saturating_sub(valid(&now)?))
}

/// Sleeps in a fiber. `None` for others, and for an orphaned fiber.
pub(super) fn sleep_for(ahead: Option<Duration>) -> Option<Outcome> {
    let ahead = ahead?;
    in_fiber(|here| {
        if ahead.is_zero() {
            here.yield_to_any();
            return Some(Ok(0));
        }
        let asleep = Asleep { is_in_c_library: true };
        (here.block_quietly(&asleep, Some(time::after(ahead))) == Woken::TimedOut).then_some(Ok(0))
    })
}

/// # Safety
/// The pointer is null or valid.
unsafe fn sleep_by(request: *const timespec, clock: Option<clockid_t>) -> Option<Outcome> {
    // SAFETY: the caller's promise.
    sleep_for(ahead(unsafe { request.as_ref() }?, clock))
}

interposed! {
    fn nanosleep(request: *const timespec, remaining: *mut timespec) -> c_int = sleep_by(request, None);
    fn clock_nanosleep(clock: clockid_t, flags: c_int, request: *const timespec, remaining: *mut timespec) -> c_int = {
        let is_time = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME);
        let is_absolute = flags & libc::TIMER_ABSTIME != 0;
        is_time.then(|| sleep_by(request, is_absolute.then_some(clock))).flatten()
    };
    fn usleep(micros: useconds_t) -> c_int = sleep_for(Some(Duration::from_micros(micros.into())));
    fn sleep(seconds: c_uint) -> c_uint = sleep_for(Some(Duration::from_secs(seconds.into())));
    fn sched_yield() -> c_int = in_fiber(|here| {
        here.yield_to_any();
        // Other threads may run as well.
        None
    });
}
