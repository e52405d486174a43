//! Dynamic up: a stage whose output queue is backed up lowers itself, once and permanently.
//!
//! Source: Roysden, section 4, "Adjusting scheduling": "a stage calls nice up - permanently lowers
//! its priority - if it observes a two or more buffers in its output queue when it conveyed a
//! completed buffer. The priority is lowered only once". It needs no privileges, since any thread
//! may lower itself.
//!
//! Choice: the buffer being conveyed counts as one of the two. The source counts what is in the
//! queue *when it conveyed*, and its second rule says "other buffers" for those that were there
//! before. So one other buffer is enough.
//!
//! Result in the source: 1 % for a program that computes, none for one that reads and writes.
//! Sooner or later all stages that are ever ahead have lowered themselves, and then all are equal
//! again.

use super::StagePriority;

/// This many buffers in the output queue are a backup, including the conveyed one.
const BACKUP: u32 = 2;

/// Whether the output queue is backed up, with this many buffers besides the conveyed one.
pub(super) const fn is_backed_up(others_in_output: u32) -> bool {
    others_in_output >= BACKUP - 1
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DynamicUp;

impl DynamicUp {
    pub(super) fn conveyed(&self, now: StagePriority, others_in_output: u32) -> StagePriority {
        if is_backed_up(others_in_output) { StagePriority::Lowered } else { now }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PriorityRule, StageKind};
    use super::*;

    #[test]
    fn a_second_buffer_in_the_output_lowers_and_nothing_raises_again() {
        let mut stage = PriorityRule::DynamicUp.stage(StageKind::Io);
        assert_eq!(stage.begin(), StagePriority::Neutral);
        assert_eq!(stage.conveyed(0), None);
        assert_eq!(stage.accepted(7), None);
        assert_eq!(stage.conveyed(1), Some(StagePriority::Lowered));
        assert_eq!((stage.conveyed(5), stage.conveyed(0)), (None, None));
    }
}
