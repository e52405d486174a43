//! What C passes, made into what Rust takes.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wait::Waiting;

use crate::failure::Failure;

/// Where a function leaves what it has made.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// What is not null.
pub(crate) fn given<T>(argument: Option<T>, name: &str) -> Result<T, Failure> {
    argument.ok_or_else(|| Failure::null(name))
}

/// Leaves the value where somebody wants it.
pub(crate) fn leave<T>(out: Out<'_, T>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}

/// Leaves what is made behind a handle, or null where it cannot be made.
pub(crate) fn create<T>(
    out: Out<'_, Option<Box<T>>>,
    name: &str,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    let out = out.map(|out| out.write(None));
    let made = make()?;
    *given(out, name)? = Some(Box::new(made));
    Ok(())
}

/// How to wait by the rule of this text; null is the adaptive rule.
///
/// # Safety
/// The pointer is null, or points to a text that ends with a zero.
pub(crate) unsafe fn waiting(rule: *const c_char) -> Result<Waiting, Failure> {
    if rule.is_null() {
        return Ok(Waiting::ADAPTIVE);
    }
    // SAFETY: the caller says so.
    let text = unsafe { CStr::from_ptr(rule) }.to_string_lossy();
    text.parse().map(Waiting::by).map_err(Failure::invalid)
}

/// A moment of `CLOCK_MONOTONIC`, as the clock that is waited by.
pub(crate) fn deadline(deadline: Option<&libc::timespec>) -> Result<Instant, Failure> {
    let deadline = given(deadline, "deadline")?;
    let nanos = u32::try_from(deadline.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000);
    let Some(nanos) = nanos else {
        return Err(Failure::invalid(format_args!("a deadline has 0 to 999999999 ns, not {}", deadline.tv_nsec)));
    };
    // Before the clock's zero is in the past, whenever it was.
    let deadline = u64::try_from(deadline.tv_sec).map_or(Duration::ZERO, |secs| Duration::new(secs, nanos));
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    Ok(after(deadline.saturating_sub(now)))
}

/// So long from now on, or for as long as the clock goes.
pub(crate) fn after(timeout: Duration) -> Instant {
    let now = Instant::now();
    // A century is for ever.
    now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(100 * 366 * 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tv_sec: i64, tv_nsec: i64) -> Result<Instant, Failure> {
        deadline(Some(&libc::timespec { tv_sec, tv_nsec }))
    }

    #[test]
    fn deadlines_are_those_of_the_monotonic_clock() {
        let earliest = Instant::now();
        let before = clock_gettime(ClockId::Monotonic);
        let in_an_hour = at(before.tv_sec + 3_600, before.tv_nsec).ok().unwrap();
        let latest = Instant::now();
        assert!(in_an_hour <= latest + Duration::from_secs(3_600));
        // What passes between two readings of clocks is not more than between the outermost.
        assert!(in_an_hour + (latest - earliest) >= earliest + Duration::from_secs(3_600));
    }

    #[test]
    fn deadlines_of_the_past_have_passed_and_those_of_a_far_future_have_not() {
        for sec in [i64::MIN, -1, 0] {
            assert!(at(sec, 999_999_999).ok().unwrap() <= Instant::now());
        }
        assert!(at(i64::MAX, 0).ok().unwrap() > Instant::now());
    }

    #[test]
    fn what_is_no_deadline_is_refused() {
        assert!(at(1, 1_000_000_000).is_err() && at(1, -1).is_err() && deadline(None).is_err());
    }
}
