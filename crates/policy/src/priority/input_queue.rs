//! The input queue: a stage for which several buffers wait is raised until none does.
//!
//! Source: Roysden, section 1, where it is proposed and not tried: "A programmer can raise the priority of any stage that has multiple
//! buffers in its input queue [...] signs that the stage is moving slower [...] than its neighbor".
//!
//! Choices that the source leaves open: the stage looks when it accepts, and counts what is left there, so that the buffer in its hands is
//! not one that waits. It is raised at two and gives that back at none; in between it stays as it is, so that a
//! queue of one now and then costs no system call.
//!
//! Who lags behind has a full input queue all the time, and stays raised: that is the one that limits the pipeline. Who only had to wait
//! for a CPU works its queue off, and is as before. Raising takes a privilege; without it the rule does nothing.

use super::StagePriority;

/// So many buffers that wait are several.
const SEVERAL: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InputQueue;

impl InputQueue {
    pub(super) fn accepted(&self, now: StagePriority, left_in_input: u32) -> StagePriority {
        match left_in_input {
            0 => StagePriority::Neutral,
            SEVERAL.. => StagePriority::Raised,
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PriorityRule, StageKind};
    use super::*;

    #[test]
    fn two_that_wait_raise_and_none_that_waits_takes_it_back() {
        let mut stage = PriorityRule::InputQueue.stage(StageKind::Compute);
        assert_eq!(stage.begin(), StagePriority::Neutral);
        assert_eq!((stage.accepted(0), stage.accepted(1), stage.conveyed(9)), (None, None, None));
        assert_eq!(stage.accepted(2), Some(StagePriority::Raised));
        assert_eq!((stage.accepted(3), stage.accepted(1)), (None, None));
        assert_eq!(stage.accepted(0), Some(StagePriority::Neutral));
        assert_eq!(stage.accepted(1), None);
    }
}
