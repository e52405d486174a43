//! Carries out what a rule of priority says of the stages of a thread.

use policy::priority::{PriorityRule, StageKind, StagePolicy, StagePriority};

/// The stages of one thread, as a rule sees them.
pub(crate) struct Favoured<'a> {
    /// Each with its station, and what was last said of it.
    stages: Vec<(usize, StagePolicy, StagePriority)>,
    /// Whether the rule looks at queues at all.
    watches: bool,
    /// Makes the calling thread so.
    apply: Box<dyn FnMut(StagePriority) + 'a>,
}

impl<'a> Favoured<'a> {
    /// The sides that a rule has for these stages, asked for the first time: to be called by the thread itself.
    pub(crate) fn begin(
        rule: PriorityRule,
        stages: &[(usize, StageKind)],
        mut apply: Box<dyn FnMut(StagePriority) + 'a>,
    ) -> Favoured<'a> {
        let begun = stages.iter().map(|&(at, kind)| {
            let mut stage = rule.stage(kind);
            let favour = stage.begin();
            (at, stage, favour)
        });
        let stages: Vec<_> = begun.collect();
        // Several stages of one thread are as favoured as the most favoured.
        let favour = stages.iter().map(|&(_, _, favour)| favour).max().unwrap_or_default();
        if favour != StagePriority::Neutral {
            apply(favour);
        }
        Favoured { stages, watches: rule.uses_queues(), apply }
    }

    #[inline]
    pub(crate) fn accepted(&mut self, at: usize, left: usize) {
        if self.watches {
            self.ask(at, |stage| stage.accepted(left as u32));
        }
    }

    #[inline]
    pub(crate) fn conveyed(&mut self, at: usize, others: usize) {
        if self.watches {
            self.ask(at, |stage| stage.conveyed(others as u32));
        }
    }

    fn ask(&mut self, at: usize, question: impl FnOnce(&mut StagePolicy) -> Option<StagePriority>) {
        let before = self.favour();
        let Some((_, stage, favour)) = self.stages.iter_mut().find(|(station, ..)| *station == at) else { return };
        if let Some(changed) = question(stage) {
            *favour = changed;
            let now = self.favour();
            if now != before {
                (self.apply)(now);
            }
        }
    }

    fn favour(&self) -> StagePriority {
        self.stages.iter().map(|&(_, _, favour)| favour).max().unwrap_or_default()
    }
}
