//! Limiting resource: the stages that use what limits the program are raised, as found while it
//! runs.
//!
//! Source: our own, after a demand of Roysden's section 1: scheduling helps "to the extent that it
//! can reduce the actual running time per round of the limiting resource". Its fixed rules show
//! which stages to raise once that resource is known. [`limit()`] finds it.
//!
//! * **The CPUs** limit: the computing stages are raised, so that others interrupt them less often.
//!   (The source's one success, 5 %.)
//! * **The device** limits: the stages that do I/O are raised. They need the CPU only briefly, but
//!   until they have it the device idles.
//! * **One stage** limits: it is raised, so that it continues as soon as its buffer arrives.
//! * **The buffers** limit, or nothing: no stage is raised.
//!
//! # Stability
//!
//! One period says little: a pipeline works in bursts. A new limit is accepted when [`AGREEMENT`]
//! periods in a row have named it. A raised stage soon no longer stands out as the limit. So that
//! this does not undo the decision, a limit is dropped only after [`MEMORY`] periods without one.
//!
//! # No starvation
//!
//! No stage is ever lowered, and a raised stage gets a share that is only larger by a bounded
//! factor, so the others continue. If one of them still waits for a CPU through nearly a whole
//! period, it is raised with the others for the next. If all stages would be raised, none is: that
//! would only take time from other programs.

use super::limit::thousandths;
use super::{Limit, MachineObservation, StageKind, StageObservation, StagePriority, limit};
use crate::units::Span;

/// This many periods in a row must name a limit before it is accepted.
const AGREEMENT: u32 = 3;

/// This many periods in a row must find no limit before the last one is dropped.
const MEMORY: u32 = 10;

/// A stage that waits for a CPU for this many thousandths of a period starves.
const STARVING: u64 = 900;

/// Decides the priorities of all stages together, from period to period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityController {
    accepted: Limit,
    /// The limit that the last periods found, and how many of them in a row.
    candidate: Limit,
    periods: u32,
    priorities: Vec<StagePriority>,
}

impl PriorityController {
    /// The time between two decisions. Long enough for a timeslice or two of every thread and for
    /// some requests to a device, short enough to matter in a run of seconds. A decision costs some
    /// reads below `/proc` and `/sys`.
    pub const PERIOD: Span = Span::from_millis(50);

    pub(super) fn new() -> PriorityController {
        PriorityController { accepted: Limit::Unknown, candidate: Limit::Unknown, periods: 0, priorities: Vec::new() }
    }

    /// Decides the priority of each stage until the next call, from what all stages and the machine
    /// have done since the last one.
    ///
    /// Pure: the same controller with the same input decides the same. The stages are those of the
    /// last call, in the order of the pipeline; if their number differs, earlier findings are
    /// dropped.
    pub fn decide(&mut self, stages: &[StageObservation], machine: &MachineObservation) -> &[StagePriority] {
        if stages.len() != self.priorities.len() {
            let priorities = vec![StagePriority::Neutral; stages.len()];
            *self = PriorityController { priorities, ..PriorityController::new() };
        }
        self.accept(limit(stages, machine));
        let starves = |stage: &StageObservation| {
            let waited = stage.waiting_for_cpu.unwrap_or(Span::ZERO);
            thousandths(waited, machine.since, stage.copies) >= STARVING && !machine.since.is_zero()
        };
        let is_limit = |at: usize, stage: &StageObservation| match self.accepted {
            Limit::Cpu => stage.kind == StageKind::Compute,
            Limit::Device => stage.kind == StageKind::Io,
            Limit::Stage(which) => at == which,
            Limit::Buffers | Limit::Unknown => false,
        };
        for (at, (priority, stage)) in self.priorities.iter_mut().zip(stages).enumerate() {
            let raises = is_limit(at, stage) || starves(stage);
            *priority = if raises { StagePriority::Raised } else { StagePriority::Neutral };
        }
        if self.priorities.iter().all(|&priority| priority == StagePriority::Raised) {
            self.priorities.fill(StagePriority::Neutral);
        }
        &self.priorities
    }

    fn accept(&mut self, found: Limit) {
        // Neither is a reason to raise a stage.
        let found = if found == Limit::Buffers { Limit::Unknown } else { found };
        self.periods = if found == self.candidate { self.periods.saturating_add(1) } else { 1 };
        self.candidate = found;
        if self.periods >= if found == Limit::Unknown { MEMORY } else { AGREEMENT } {
            self.accepted = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::limit::tests::{any_machine, any_stages, machine, stage};
    use super::*;

    use StagePriority::{Neutral, Raised};

    fn three(read: u64, compute: u64, write: u64) -> [StageObservation; 3] {
        [stage(StageKind::Io, read), stage(StageKind::Compute, compute), stage(StageKind::Io, write)]
    }

    fn with_cpus_as_limit() -> PriorityController {
        let mut controller = PriorityController::new();
        (0..3).for_each(|_| drop(controller.decide(&three(50, 97, 50), &machine(195)).to_vec()));
        controller
    }

    fn with_device(cpu_used: u64, busy: u64) -> MachineObservation {
        MachineObservation { device_busy: Some(Span::from_millis(busy)), ..machine(cpu_used) }
    }

    #[test]
    fn the_stages_that_use_the_limiting_resource_are_raised_from_the_third_period_on() {
        let cases = [
            (three(50, 97, 50), machine(195), Limit::Cpu, [Neutral, Raised, Neutral]),
            (three(50, 30, 48), with_device(60, 99), Limit::Device, [Raised, Neutral, Raised]),
            (three(98, 30, 10), with_device(60, 50), Limit::Stage(0), [Raised, Neutral, Neutral]),
            (three(50, 30, 50), machine(60), Limit::Unknown, [Neutral; 3]),
        ];
        for (stages, machine, limit, priorities) in cases {
            let mut controller = PriorityController::new();
            for _ in 1..AGREEMENT {
                assert_eq!(controller.decide(&stages, &machine), [Neutral; 3]);
            }
            assert_eq!(controller.decide(&stages, &machine), priorities, "{limit:?}");
            assert_eq!(controller.accepted, limit);
        }
    }

    #[test]
    fn another_limit_takes_over_after_as_many_periods() {
        let mut controller = with_cpus_as_limit();
        let (stages, machine) = (three(98, 30, 10), machine(60));
        for expected in [[Neutral, Raised, Neutral], [Neutral, Raised, Neutral], [Raised, Neutral, Neutral]] {
            assert_eq!(controller.decide(&stages, &machine), expected);
        }
    }

    #[test]
    fn a_stage_that_no_longer_stands_out_stays_raised_for_a_while() {
        let mut controller = with_cpus_as_limit();
        for _ in 1..MEMORY {
            assert_eq!(controller.decide(&three(50, 60, 50), &machine(100)), [Neutral, Raised, Neutral]);
        }
        assert_eq!(controller.decide(&three(50, 60, 50), &machine(100)), [Neutral; 3]);
    }

    #[test]
    fn a_burst_that_ends_before_it_is_accepted_changes_nothing() {
        let mut controller = PriorityController::new();
        for period in 0..80 {
            let (cpus, stage) = ((three(50, 97, 50), machine(195)), (three(98, 30, 10), machine(60)));
            let (stages, machine) = if period % 4 < 2 { cpus } else { stage };
            assert_eq!(controller.decide(&stages, &machine), [Neutral; 3]);
        }
    }

    #[test]
    fn a_starving_stage_is_raised_immediately_and_for_one_period() {
        let mut controller = with_cpus_as_limit();
        let mut stages = three(95, 97, 5);
        stages[0].waiting_for_cpu = Some(Span::from_millis(95));
        assert_eq!(controller.decide(&stages, &machine(195)), [Raised, Raised, Neutral]);
        assert_eq!(controller.decide(&three(50, 97, 50), &machine(195)), [Neutral, Raised, Neutral]);
    }

    #[test]
    fn if_all_stages_would_be_raised_none_is() {
        let mut controller = PriorityController::new();
        let stages = [stage(StageKind::Compute, 98), stage(StageKind::Compute, 97)];
        assert!((0..9).all(|_| controller.decide(&stages, &machine(195)) == [Neutral; 2]));
    }

    #[test]
    fn another_number_of_stages_is_another_pipeline() {
        let mut controller = with_cpus_as_limit();
        assert_eq!(controller.decide(&three(50, 97, 50)[..2], &machine(195)), [Neutral; 2]);
        assert!(controller.decide(&[], &machine(195)).is_empty());
    }

    proptest! {
        #[test]
        fn no_stage_is_lowered_and_not_all_are_raised(
            periods in prop::collection::vec((any_stages(), any_machine()), 0..40),
        ) {
            let (mut controller, mut again) = (PriorityController::new(), PriorityController::new());
            for (stages, machine) in &periods {
                let priorities = controller.decide(stages, machine).to_vec();
                prop_assert_eq!(priorities.len(), stages.len());
                prop_assert!(!priorities.contains(&StagePriority::Lowered));
                prop_assert!(priorities.is_empty() || priorities.contains(&Neutral));
                prop_assert_eq!(&priorities, again.decide(stages, machine), "the same input leads to the same decision");
            }
        }

        #[test]
        fn priorities_change_no_more_often_than_agreement_allows(
            periods in prop::collection::vec((0_u64..101, 0_u64..101, 0_u64..201), 3..90),
        ) {
            let mut controller = PriorityController::new();
            let decide = |&(read, compute, used): &(u64, u64, u64)| {
                controller.decide(&three(read, compute, 10), &machine(used)).to_vec()
            };
            let all: Vec<Vec<StagePriority>> = periods.iter().map(decide).collect();
            let changes = all.windows(2).filter(|pair| pair[0] != pair[1]).count();
            prop_assert!(changes * AGREEMENT as usize <= periods.len(), "{} changes", changes);
        }
    }
}
