//! Nice values, for each thread: it gets a small share of a CPU that others of its task group want.

use std::io;

use sys::scheduling::{Thread, WORST_NICE, nice, set_nice};

use super::threads::change_all;
use super::{Mechanism, Target};

/// By how much the nice value of a lowered thread is larger, as in the paper.
const STEPS: i32 = 15;

/// Lowers by nice values.
#[derive(Debug)]
pub(super) struct Nice {
    /// The nice value of threads that are not lowered. Others are left alone.
    pub(super) ordinary: i32,
}

impl Nice {
    fn change(&self, thread: Thread, is_lowered: bool) -> bool {
        let lowered = self.ordinary.saturating_add(STEPS).min(WORST_NICE);
        let (from, to) = if is_lowered { (self.ordinary, lowered) } else { (lowered, self.ordinary) };
        nice(thread).is_ok_and(|now| now == from) && set_nice(thread, to).is_ok()
    }
}

impl Mechanism for Nice {
    fn restrain(&mut self, target: &Target<'_>) -> io::Result<()> {
        change_all(target, |thread| self.change(thread, true), |thread| self.change(thread, false));
        Ok(())
    }

    fn release(&mut self, target: &Target<'_>) -> io::Result<()> {
        change_all(target, |thread| self.change(thread, false), |thread| self.change(thread, true));
        Ok(())
    }
}
