//! Guards and deadlines, which only this library has.

use std::ffi::c_int;
use std::time::Duration;

use c_abi::{Failure, given, status};
use rustix::time::{ClockId, clock_gettime};

/// Forgets the guard that a call returns, since C cannot store it.
pub(crate) fn acquire<G>(call: impl FnOnce() -> Result<G, Failure>) -> c_int {
    status(|| call().map(std::mem::forget))
}

/// The time until `CLOCK_MONOTONIC` reaches a deadline.
pub(crate) fn until(deadline: Option<&libc::timespec>) -> Result<Duration, Failure> {
    let deadline = given(deadline, "deadline")?;
    let nanos = u32::try_from(deadline.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000);
    let Some(nanos) = nanos else {
        return Err(Failure::invalid(format_args!("a deadline has 0 to 999999999 ns, not {}", deadline.tv_nsec)));
    };
    // A time before the zero of the clock is in the past.
    let deadline = u64::try_from(deadline.tv_sec).map_or(Duration::ZERO, |secs| Duration::new(secs, nanos));
    let now = clock_gettime(ClockId::Monotonic);
    Ok(deadline.saturating_sub(Duration::new(now.tv_sec as u64, now.tv_nsec as u32)))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn until_time(tv_sec: i64, tv_nsec: i64) -> Result<Duration, Failure> {
        until(Some(&libc::timespec { tv_sec, tv_nsec }))
    }

    #[test]
    fn deadlines_are_times_of_the_monotonic_clock() {
        let (earliest, before) = (Instant::now(), clock_gettime(ClockId::Monotonic));
        let rest = until_time(before.tv_sec + 3_600, before.tv_nsec).ok().unwrap();
        assert!(rest <= Duration::from_secs(3_600) && rest + earliest.elapsed() >= Duration::from_secs(3_600));
    }

    #[test]
    fn past_deadlines_have_passed_and_distant_ones_have_not() {
        for sec in [i64::MIN, -1, 0] {
            assert_eq!(until_time(sec, 999_999_999).ok(), Some(Duration::ZERO));
        }
        assert!(until_time(i64::MAX, 0).ok().unwrap() > Duration::ZERO);
    }

    #[test]
    fn invalid_deadlines_are_rejected() {
        assert!(until_time(1, 1_000_000_000).is_err() && until_time(1, -1).is_err() && until(None).is_err());
    }
}
