//! Calls that a stop ends: `epoll_wait`, `semop`, `sigwaitinfo` and their relatives.
//!
//! POSIX allows a call to end with EINTR only after a signal handler has run. The kernel repeats
//! most calls that a stop has interrupted, but not these. In a job of `rowlock prun`, which is
//! stopped for the turns of others, they are repeated here, with the time that remains, if they end
//! with EINTR and [no handler has run](crate::handlers). It does not matter who has stopped the
//! job. If it is unknown whether a handler has run, the program gets the EINTR.
//!
//! A handler may run after that was checked and before the call is repeated. The program would wait
//! on, although it relies on the handler to end its call. So all signals are blocked in between if
//! the repeated call lets them through again, as `epoll_pwait` does in one step. The others are
//! repeated for a [second](STEP) at most, and then it is checked again.
//!
//! Calls on sockets with SO_RCVTIMEO or SO_SNDTIMEO are [elsewhere](crate::sockets).

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libc::{EAGAIN, EINTR, ENOSYS, epoll_event, sembuf, siginfo_t, sigset_t, timespec};

use crate::real_symbols::real_symbols;
use crate::{errno, handlers, preserve_errno, set_errno};

real_symbols! {
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(
        epoll: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int;
    fn semop(set: c_int, operations: *mut sembuf, count: usize) -> c_int;
    fn semtimedop(set: c_int, operations: *mut sembuf, count: usize, timeout: *const timespec) -> c_int;
    fn sigwaitinfo(signals: *const sigset_t, info: *mut siginfo_t) -> c_int;
    fn sigtimedwait(signals: *const sigset_t, info: *mut siginfo_t, timeout: *const timespec) -> c_int;
}

/// How late a handler may end a call in whose repetition it has run.
const STEP: Duration = Duration::from_secs(1);

/// The beginning of a call.
pub(crate) struct Begun {
    errno: c_int,
    handlers: u64,
    /// `None` if the call has no timeout.
    at: Option<Instant>,
}

/// The time until which a repeated call waits. `None` if it has no timeout.
#[derive(Clone, Copy)]
pub(crate) struct Until(Option<Instant>);

impl Begun {
    pub(crate) fn now(has_timeout: bool) -> Begun {
        Begun { errno: errno(), handlers: handlers::count(), at: has_timeout.then(Instant::now) }
    }

    /// Whether only a stop has ended the call that had this result.
    pub(crate) fn is_stopped<R: PartialOrd + From<i8>>(&self, result: R) -> bool {
        result < R::from(0) && errno() == EINTR && !handlers::may_have_run(self.handlers)
    }

    /// The result of a repeated call. One that succeeds leaves `errno` as it was before the first
    /// one.
    pub(crate) fn ended<R: PartialOrd + From<i8>>(&self, result: R) -> R {
        if result >= R::from(0) {
            set_errno(self.errno);
        }
        result
    }

    /// The end of a call with this timeout.
    pub(crate) fn until(&self, timeout: Option<Duration>) -> Until {
        Until(self.at.zip(timeout).and_then(|(at, timeout)| at.checked_add(timeout)))
    }
}

impl Until {
    /// The time that remains.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.0.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

/// The timeout at this address, which a call has accepted. `None` without one.
///
/// # Safety
/// It is null or that of a timeout.
unsafe fn timeout_at(timeout: *const timespec) -> Option<Duration> {
    // SAFETY: the caller's promise.
    let timeout = unsafe { timeout.as_ref() }?;
    Some(Duration::new(timeout.tv_sec.try_into().ok()?, timeout.tv_nsec.try_into().ok()?))
}

pub(crate) fn to_timespec(time: Duration) -> timespec {
    timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

/// In whole milliseconds, which are not less.
fn to_millis(time: Duration) -> c_int {
    time.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(c_int::MAX)
}

/// Repeats a call that waits with another signal mask: this one, or the present one if it is null.
///
/// A thread that is cancelled in the call, or leaves a handler by a jump, has the mask of the call,
/// as in the first one.
pub(crate) fn repeat_with_mask(begun: &Begun, mask: *const sigset_t, call: impl Fn(*const sigset_t) -> c_int) -> c_int {
    let (mut all, mut before) = (MaybeUninit::<sigset_t>::uninit(), MaybeUninit::<sigset_t>::uninit());
    // SAFETY: there is room for both, which are initialized before their use.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let mask = if mask.is_null() { before.as_ptr() } else { mask };
    let result = loop {
        if handlers::may_have_run(begun.handlers) {
            set_errno(EINTR);
            break -1;
        }
        let result = call(mask);
        if result >= 0 || errno() != EINTR {
            break begun.ended(result);
        }
    };
    // SAFETY: the mask is the one from before.
    preserve_errno(|| unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) });
    result
}

/// Repeats a call with a timeout, which fails with EAGAIN after it.
fn repeat_in_steps(begun: &Begun, until: Until, call: impl Fn(*const timespec) -> c_int) -> c_int {
    loop {
        if handlers::may_have_run(begun.handlers) {
            set_errno(EINTR);
            return -1;
        }
        let remaining = until.remaining();
        let step = Until(Some(Instant::now() + remaining.map_or(STEP, |remaining| remaining.min(STEP))));
        let is_last = remaining.is_some_and(|remaining| remaining <= STEP);
        let result = call(&to_timespec(step.remaining().unwrap_or_default()));
        let is_over = || errno() == EAGAIN && !is_last && step.remaining() == Some(Duration::ZERO);
        if result >= 0 || errno() != EINTR && !is_over() {
            return begun.ended(result);
        }
    }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: c_int) -> c_int {
    // SAFETY: the caller's own call. The one with a mask does the same.
    unsafe {
        if timeout == 0 || !handlers::is_in_job() {
            return real::epoll_wait(epoll, events, most, timeout);
        }
        let begun = Begun::now(timeout > 0);
        let result = real::epoll_wait(epoll, events, most, timeout);
        if begun.is_stopped(result) { wait_again(&begun, epoll, events, most, timeout, null_mut()) } else { result }
    }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's own call.
    unsafe {
        if timeout == 0 || !handlers::is_in_job() {
            return real::epoll_pwait(epoll, events, most, timeout, mask);
        }
        let begun = Begun::now(timeout > 0);
        let result = real::epoll_pwait(epoll, events, most, timeout, mask);
        if begun.is_stopped(result) { wait_again(&begun, epoll, events, most, timeout, mask) } else { result }
    }
}

/// # Safety
/// As for `epoll_pwait`.
unsafe fn wait_again(
    begun: &Begun,
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let until = begun.until(timeout.try_into().ok().map(Duration::from_millis));
    repeat_with_mask(begun, mask, |mask| {
        let remaining = until.remaining().map_or(-1, to_millis);
        // SAFETY: the caller's promise.
        unsafe { real::epoll_pwait(epoll, events, most, remaining, mask) }
    })
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // A program may look for it, and the C library may be older.
    if real::at::epoll_pwait2.address().is_none() {
        set_errno(ENOSYS);
        return -1;
    }
    // SAFETY: the caller's own call, which has accepted the timeout when it is read.
    unsafe {
        if !handlers::is_in_job() {
            return real::epoll_pwait2(epoll, events, most, timeout, mask);
        }
        let begun = Begun::now(!timeout.is_null());
        let result = real::epoll_pwait2(epoll, events, most, timeout, mask);
        if !begun.is_stopped(result) {
            return result;
        }
        let until = begun.until(timeout_at(timeout));
        repeat_with_mask(&begun, mask, |mask| match until.remaining().map(to_timespec) {
            Some(remaining) => real::epoll_pwait2(epoll, events, most, &raw const remaining, mask),
            None => real::epoll_pwait2(epoll, events, most, std::ptr::null(), mask),
        })
    }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn semop(set: c_int, operations: *mut sembuf, count: usize) -> c_int {
    // SAFETY: the caller's own call. The one with a timeout does the same.
    unsafe {
        if !handlers::is_in_job() {
            return real::semop(set, operations, count);
        }
        let begun = Begun::now(false);
        let result = real::semop(set, operations, count);
        if !begun.is_stopped(result) {
            return result;
        }
        repeat_in_steps(&begun, Until(None), |timeout| real::semtimedop(set, operations, count, timeout))
    }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn semtimedop(
    set: c_int,
    operations: *mut sembuf,
    count: usize,
    timeout: *const timespec,
) -> c_int {
    // SAFETY: the caller's own call, which has accepted the timeout when it is read.
    unsafe {
        if !handlers::is_in_job() {
            return real::semtimedop(set, operations, count, timeout);
        }
        let begun = Begun::now(!timeout.is_null());
        let result = real::semtimedop(set, operations, count, timeout);
        if !begun.is_stopped(result) {
            return result;
        }
        let until = begun.until(timeout_at(timeout));
        repeat_in_steps(&begun, until, |timeout| real::semtimedop(set, operations, count, timeout))
    }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigwaitinfo(signals: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: the caller's own call. The one with a timeout does the same.
    unsafe {
        if !handlers::is_in_job() {
            return real::sigwaitinfo(signals, info);
        }
        let begun = Begun::now(false);
        let result = real::sigwaitinfo(signals, info);
        if !begun.is_stopped(result) {
            return result;
        }
        repeat_in_steps(&begun, Until(None), |timeout| real::sigtimedwait(signals, info, timeout))
    }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigtimedwait(
    signals: *const sigset_t,
    info: *mut siginfo_t,
    timeout: *const timespec,
) -> c_int {
    // SAFETY: the caller's own call, which has accepted the timeout when it is read.
    unsafe {
        if !handlers::is_in_job() {
            return real::sigtimedwait(signals, info, timeout);
        }
        let begun = Begun::now(!timeout.is_null());
        let result = real::sigtimedwait(signals, info, timeout);
        if !begun.is_stopped(result) {
            return result;
        }
        let until = begun.until(timeout_at(timeout));
        repeat_in_steps(&begun, until, |timeout| real::sigtimedwait(signals, info, timeout))
    }
}
