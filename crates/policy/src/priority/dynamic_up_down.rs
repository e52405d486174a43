//! Dynamic up and down: a stage lowers itself while its output queue is backed up, until it finds
//! it empty.
//!
//! Source: Roysden, section 4, "Adjusting scheduling": "the thread calls nice up if it sees a
//! backup and does not already have a lowered priority (as in the first). The thread also calls
//! nice down if it sees no other buffers when it conveys and if it has a lower priority. This
//! technique requires superuser privileges." Without them the kernel refuses the way back, and the
//! rule acts like dynamic-up.
//!
//! A backup is two buffers including the conveyed one, so no state lies between the two conditions:
//! the stage makes a system call in every round in which the queue has become empty or is no longer
//! empty. That is the rule of the source, and it is kept.

use super::StagePriority;
use super::dynamic_up::is_backed_up;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DynamicUpDown;

impl DynamicUpDown {
    pub(super) fn conveyed(&self, now: StagePriority, others_in_output: u32) -> StagePriority {
        match others_in_output {
            0 => StagePriority::Neutral,
            others if is_backed_up(others) => StagePriority::Lowered,
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PriorityRule, StageKind};
    use super::*;

    #[test]
    fn an_empty_output_undoes_the_effect_of_a_backup() {
        let mut stage = PriorityRule::DynamicUpDown.stage(StageKind::Io);
        assert_eq!(stage.begin(), StagePriority::Neutral);
        assert_eq!(stage.conveyed(0), None);
        assert_eq!(stage.conveyed(2), Some(StagePriority::Lowered));
        assert_eq!(stage.conveyed(1), None);
        assert_eq!(stage.conveyed(0), Some(StagePriority::Neutral));
        assert_eq!(stage.conveyed(1), Some(StagePriority::Lowered));
    }
}
