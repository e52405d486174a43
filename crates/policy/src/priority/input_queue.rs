//! Input queue: a stage with several waiting buffers is raised until none waits.
//!
//! Source: Roysden, section 1, where it is proposed but not tried: "A programmer can raise the
//! priority of any stage that has multiple buffers in its input queue [...] signs that the stage is
//! moving slower [...] than its neighbor".
//!
//! Choices that the source leaves open: the stage checks when it accepts a buffer and counts those
//! that remain, so the buffer that it holds does not count as waiting. It is raised at two and
//! returns to normal at none. In between it keeps its priority, so a queue that has one buffer now
//! and then costs no system call.
//!
//! A stage that lags behind has a full input queue all the time and stays raised: it limits the
//! pipeline. A stage that only had to wait for a CPU empties its queue and returns to normal.
//! Raising takes a privilege; without it the rule does nothing.

use super::StagePriority;

/// This many waiting buffers are several.
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
    fn two_waiting_buffers_raise_and_none_returns_to_normal() {
        let mut stage = PriorityRule::InputQueue.stage(StageKind::Compute);
        assert_eq!(stage.begin(), StagePriority::Neutral);
        assert_eq!((stage.accepted(0), stage.accepted(1), stage.conveyed(9)), (None, None, None));
        assert_eq!(stage.accepted(2), Some(StagePriority::Raised));
        assert_eq!((stage.accepted(3), stage.accepted(1)), (None, None));
        assert_eq!(stage.accepted(0), Some(StagePriority::Neutral));
        assert_eq!(stage.accepted(1), None);
    }
}
