//! Sleeping for waits that are not woken by another thread.

use std::ffi::c_void;

use policy::{Instant, Span};

use crate::site;

/// The first and the longest sleep.
const FIRST: Span = Span::from_micros(10);
const LONGEST: Span = Span::from_micros(500);

/// The sleeps of one wait, each longer than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    next: Span,
}

impl Backoff {
    pub(crate) const fn new() -> Backoff {
        Backoff { next: FIRST }
    }

    /// Sleeps for a while, or less if a signal arrives. It is not a cancellation point.
    pub(crate) fn sleep(&mut self) {
        let time = site::timespec(self.lengthen().as_nanos());
        // SAFETY: the time is valid, and the remaining time is not requested.
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, std::ptr::null_mut::<c_void>()) };
    }

    /// The next length of sleep.
    fn lengthen(&mut self) -> Span {
        let length = self.next;
        self.next = (length + length).min(LONGEST);
        length
    }
}

/// Pauses while another thread does a few steps, which takes less than a microsecond unless it is
/// preempted or stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    /// How many times the CPU pauses before the thread sleeps.
    left: u32,
    backoff: Backoff,
    /// When the other thread is taken for stopped, once the thread sleeps.
    end: Option<Instant>,
}

impl Pauses {
    /// The time after which the other thread is taken for stopped.
    const LIMIT: Span = Span::from_millis(1_000);

    pub(crate) const fn new() -> Pauses {
        Pauses { left: 64, backoff: Backoff::new(), end: None }
    }

    /// Pauses once. Sleeps in the end, since the other thread may have a lower priority. Returns
    /// whether to go on. Keeps `errno`.
    pub(crate) fn pause(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                std::hint::spin_loop();
                true
            }
            None => crate::preserve_errno(|| {
                let now = site::now();
                let goes_on = now < *self.end.get_or_insert(now + Pauses::LIMIT);
                if goes_on {
                    self.backoff.sleep();
                }
                goes_on
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_grow_up_to_a_limit() {
        let mut backoff = Backoff::new();
        let micros: Vec<u64> = (0..8).map(|_| backoff.lengthen().as_nanos() / 1_000).collect();
        assert_eq!(micros, [10, 20, 40, 80, 160, 320, 500, 500]);
    }
}
