//! A signal that this process gets from a time on that it has set, even if it is stopped by then.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::time::Instant;

use crate::errno;

/// The time between a signal and the next one.
const INTERVAL: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A signal that is to come, and comes again until this is dropped: the first one may come just
/// before that for which it is set.
#[derive(Debug)]
pub struct Alarm {
    timer: libc::timer_t,
}

impl Alarm {
    /// Sends this process a signal every 50 ms from this time on, or from now on if it has passed.
    /// SIGCONT continues the process if it is stopped then.
    ///
    /// # Errors
    /// If there is no such signal, or if the user has too many timers.
    pub fn new(number: i32, at: Instant) -> io::Result<Alarm> {
        let mut timer = null_mut();
        // SAFETY: zeros are a valid event, which is read, and the timer is written unless there is
        // an error.
        unsafe {
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = number;
            errno::check(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer))?;
        }
        let alarm = Alarm { timer };
        let left = at.saturating_duration_since(Instant::now());
        let seconds = left.as_secs().try_into().unwrap_or(libc::time_t::MAX);
        // Zero would disarm it.
        let value = libc::timespec { tv_sec: seconds, tv_nsec: libc::c_long::from(left.subsec_nanos()).max(1) };
        let setting = libc::itimerspec { it_interval: INTERVAL, it_value: value };
        // SAFETY: the timer exists, and the setting is initialized.
        errno::check(unsafe { libc::timer_settime(alarm.timer, 0, &raw const setting, null_mut()) })?;
        Ok(alarm)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and is used no more.
        unsafe { libc::timer_delete(self.timer) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::signals::BlockedSignals;

    const SIGNALS: [i32; 2] = [libc::SIGUSR1, libc::SIGUSR2];

    #[test]
    fn a_signal_comes_from_its_time_on_until_the_alarm_is_dropped() {
        testing::isolated_by(
            |mut this| {
                // The main thread of the harness must not take them.
                let _outer = BlockedSignals::new(&SIGNALS).unwrap();
                BlockedSignals::new(&SIGNALS).unwrap().unblock_in(&mut this);
                testing::expect_pass(&mut this);
            },
            || {
                let signals = BlockedSignals::new(&SIGNALS).unwrap();
                let start = Instant::now();
                for at in [start + Duration::from_millis(30), start] {
                    let _later = Alarm::new(libc::SIGUSR2, start + Duration::from_secs(1 << 40)).unwrap();
                    drop(Alarm::new(libc::SIGUSR2, start + Duration::from_millis(20)).unwrap());
                    let _alarm = Alarm::new(libc::SIGUSR1, at).unwrap();
                    for _ in 0..2 {
                        assert_eq!(signals.next().unwrap().number, libc::SIGUSR1);
                        assert!(Instant::now() >= at);
                    }
                }
                Alarm::new(1_000, start).unwrap_err();
            },
        );
    }
}
