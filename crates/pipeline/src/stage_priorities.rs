//! Applies a priority rule to the stages of a thread.

use policy::priority::{PriorityRule, StageKind, StagePolicy, StagePriority};

/// The stages of one thread, as a rule sees them.
pub(crate) struct StagePriorities<'a> {
    /// Each with its group.
    stages: Vec<(usize, StagePolicy)>,
    /// Whether the rule depends on queues.
    uses_queues: bool,
    /// Changes the priority of the calling thread.
    apply: Box<dyn FnMut(StagePriority) + 'a>,
}

impl<'a> StagePriorities<'a> {
    /// Asks the rule for the initial priorities. Must be called by the thread itself.
    pub(crate) fn begin(
        rule: PriorityRule,
        stages: &[(usize, StageKind)],
        apply: Box<dyn FnMut(StagePriority) + 'a>,
    ) -> StagePriorities<'a> {
        let stages = stages.iter().map(|&(at, kind)| (at, rule.stage(kind))).collect();
        let mut priorities = StagePriorities { stages, uses_queues: rule.has_queue_rule(), apply };
        priorities.apply_if_changed(StagePriority::Neutral);
        priorities
    }

    #[inline]
    pub(crate) fn accepted(&mut self, at: usize, left: usize) {
        if self.uses_queues {
            self.update(at, |stage| stage.accepted(left as u32));
        }
    }

    #[inline]
    pub(crate) fn conveyed(&mut self, at: usize, others: usize) {
        if self.uses_queues {
            self.update(at, |stage| stage.conveyed(others as u32));
        }
    }

    fn update(&mut self, at: usize, report: impl FnOnce(&mut StagePolicy)) {
        let before = self.priority();
        let Some((_, stage)) = self.stages.iter_mut().find(|(group, _)| *group == at) else { return };
        report(stage);
        self.apply_if_changed(before);
    }

    fn apply_if_changed(&mut self, before: StagePriority) {
        let now = self.priority();
        if now != before {
            (self.apply)(now);
        }
    }

    /// A thread has the highest priority of its stages.
    fn priority(&self) -> StagePriority {
        self.stages.iter().map(|(_, stage)| stage.priority).max().unwrap_or_default()
    }
}
