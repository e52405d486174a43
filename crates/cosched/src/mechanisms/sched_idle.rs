//! `SCHED_IDLE`, for each thread: it hardly gets a CPU that others of its task group want.

use std::io;

use sys::scheduling::{Policy, Thread, attributes, set_policy};

use super::threads::change_all;
use super::{Mechanism, Target};

/// Lowers by `SCHED_IDLE`.
#[derive(Debug)]
pub(super) struct SchedIdle;

impl Mechanism for SchedIdle {
    fn restrain(&mut self, target: &Target<'_>) -> io::Result<()> {
        change_all(target, lower, raise);
        Ok(())
    }

    fn release(&mut self, target: &Target<'_>) -> io::Result<()> {
        change_all(target, raise, lower);
        Ok(())
    }
}

fn lower(thread: Thread) -> bool {
    change(thread, Policy::Other, Policy::Idle)
}

fn raise(thread: Thread) -> bool {
    change(thread, Policy::Idle, Policy::Other)
}

fn change(thread: Thread, from: Policy, to: Policy) -> bool {
    attributes(thread).is_ok_and(|now| now.policy == from) && set_policy(thread, to).is_ok()
}
