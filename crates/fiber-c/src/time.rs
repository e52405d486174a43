//! Times: how long a thread waits at an object, and sleeping.

use std::ffi::{c_int, c_uint};
use std::time::{Duration, Instant};

use fiber::TimedOut;
use libc::timespec;

use crate::runtime::enter;

/// How long a thread waits.
#[derive(Clone, Copy)]
pub(crate) enum Limit<'a> {
    /// Not at all.
    Now,
    Never,
    /// Until the real-time clock shows this time.
    Until(Option<&'a timespec>),
}

impl Limit<'_> {
    /// Waits for what was not acquired yet, if ever. EBUSY if the thread does not wait, ETIMEDOUT
    /// after the deadline, EINVAL if that is invalid.
    #[inline(always)]
    pub(crate) fn wait<G>(
        self,
        acquired: Option<G>,
        wait: impl FnOnce() -> G,
        wait_until: impl FnOnce(Instant) -> Result<G, TimedOut>,
    ) -> Result<G, c_int> {
        match (acquired, self) {
            (Some(acquired), _) => Ok(acquired),
            (None, Limit::Now) => Err(libc::EBUSY),
            (None, Limit::Never) => Ok(wait()),
            (None, Limit::Until(time)) => {
                wait_until(moment(libc::CLOCK_REALTIME, time)?).map_err(|TimedOut| libc::ETIMEDOUT)
            }
        }
    }

    /// The error if the thread would wait for itself.
    pub(crate) fn deadlock(self) -> c_int {
        match self {
            Limit::Now => libc::EBUSY,
            Limit::Never => libc::EDEADLK,
            Limit::Until(time) => parts(time).err().unwrap_or(libc::EDEADLK),
        }
    }
}

/// The seconds, which may be negative, and nanoseconds of a time. EINVAL if it is null or invalid.
fn parts(time: Option<&timespec>) -> Result<(i64, u32), c_int> {
    let time = time.ok_or(libc::EINVAL)?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok().filter(|&nanoseconds| nanoseconds < 1_000_000_000);
    Ok((time.tv_sec, nanoseconds.ok_or(libc::EINVAL)?))
}

/// The moment at which a clock shows this time. EINVAL if the time is null or invalid.
pub(crate) fn moment(clock: libc::clockid_t, time: Option<&timespec>) -> Result<Instant, c_int> {
    // Both clocks start at zero.
    let since_zero =
        |(seconds, nanoseconds)| u64::try_from(seconds).map_or(Duration::ZERO, |s| Duration::new(s, nanoseconds));
    let time = since_zero(parts(time)?);
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the time.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    let (instant, ahead) = (Instant::now(), time.saturating_sub(since_zero(parts(Some(&now))?)));
    // A time that is too far away for a clock becomes one in thirty years.
    Ok(instant.checked_add(ahead).unwrap_or(instant + Duration::from_secs(1 << 30)))
}

#[unsafe(no_mangle)]
pub extern "C" fn my_sleep(seconds: c_uint) -> c_uint {
    let status = enter(|_| Ok(fiber::sleep(Duration::from_secs(seconds.into()))));
    if status == 0 { 0 } else { seconds }
}

exports! { enter_with_errno:
    fn my_usleep(microseconds: c_uint) = |_| Ok(fiber::sleep(Duration::from_micros(microseconds.into())));
    fn my_nanosleep(time: Option<&timespec>, rest: Option<&mut timespec>) = |_| {
        let (seconds, nanoseconds) = parts(time)?;
        fiber::sleep(Duration::new(seconds.try_into().map_err(|_| libc::EINVAL)?, nanoseconds));
        rest.into_iter().for_each(|rest| *rest = timespec { tv_sec: 0, tv_nsec: 0 });
        Ok(())
    };
    fn my_sched_yield() = |_| Ok(fiber::yield_now());
}

exports! { enter:
    fn my_pthread_yield() = |_| Ok(fiber::yield_now());
}
