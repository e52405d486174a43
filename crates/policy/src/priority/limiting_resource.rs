//! The limiting resource: whoever uses what limits the program is raised, as found while it runs.
//!
//! Source: our own, after what Roysden asks for in section 1: scheduling helps "to the extent that it can reduce the actual running time
//! per round of the limiting resource", and its fixed rules show whom to priority once that is known. [`limit`] finds it.
//!
//! * **The CPUs** limit: the computing stages are raised, so that others interrupt them less often. (The source's one success, 5 %.)
//! * **The device** limits: the stages that do I/O are raised. They need the CPU for moments only, but until they have it the device idles.
//! * **One stage** limits: that stage, so that it goes on as soon as its buffer is there.
//! * **The buffers** or nothing: nobody.
//!
//! # Steadiness
//!
//! One period says little: a pipeline works in bursts. A new limit is believed when [`AGREEMENT`] periods in a row have named it.
//! And what is favoured soon no longer stands out; so that this does not undo the priority, it takes [`PATIENCE`] periods in which nothing
//! limits to let go of what did.
//!
//! # Nobody starves
//!
//! No stage is ever lowered, and raised means a bounded share more: those that are not raised go on. Should one of them
//! nevertheless wait for a CPU through nearly a whole period, it is raised with the others for the next. And where all would be
//! raised, nobody is: that would only take from other programs.

use super::limit::thousandths;
use super::{Limit, MachineObservation, StageKind, StageObservation, StagePriority, limit};
use crate::units::Span;

/// So many periods in a row must name a limit for it to be believed.
const AGREEMENT: u32 = 3;

/// So many periods in a row must find no limit for the last one to be forgotten.
const PATIENCE: u32 = 10;

/// Who waits for a CPU for so many thousandths of a period starves.
const STARVING: u64 = 900;

/// Looks at all stages together, and says who is favoured until it is asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityController {
    believed: Limit,
    /// What the last periods named instead, and how many of them in a row.
    rival: Limit,
    named: u32,
    priorities: Vec<StagePriority>,
}

impl PriorityController {
    /// How long to wait from one question to the next. Long enough for a timeslice or two of every thread and some requests to a
    /// device, short enough to matter in a run of seconds; a question costs some reads below `/proc` and `/sys`.
    pub const PERIOD: Span = Span::from_millis(50);

    pub(super) fn new() -> PriorityController {
        PriorityController { believed: Limit::Unknown, rival: Limit::Unknown, named: 0, priorities: Vec::new() }
    }

    /// Who is favoured from now on, one for each stage, given what all stages and the machine did since the last time.
    ///
    /// Pure: the same controller, told the same, decides the same. The stages are in the order of the pipeline, and the same as the
    /// last time; where there is another number of them, what was found before is forgotten.
    pub fn decide(&mut self, stages: &[StageObservation], machine: &MachineObservation) -> &[StagePriority] {
        if stages.len() != self.priorities.len() {
            *self = PriorityController {
                priorities: vec![StagePriority::Neutral; stages.len()],
                ..PriorityController::new()
            };
        }
        self.believe(limit(stages, machine));
        let starves = |stage: &StageObservation| {
            thousandths(stage.waiting_for_cpu, machine.since, stage.copies) >= STARVING && !machine.since.is_zero()
        };
        let is_limit = |at: usize, stage: &StageObservation| match self.believed {
            Limit::Cpu => stage.kind == StageKind::Compute,
            Limit::Device => stage.kind == StageKind::Io,
            Limit::Stage(which) => at == which,
            Limit::Buffers | Limit::Unknown => false,
        };
        for (at, (priority, stage)) in self.priorities.iter_mut().zip(stages).enumerate() {
            *priority =
                if is_limit(at, stage) || starves(stage) { StagePriority::Raised } else { StagePriority::Neutral };
        }
        if self.priorities.iter().all(|&priority| priority == StagePriority::Raised) {
            self.priorities.fill(StagePriority::Neutral);
        }
        &self.priorities
    }

    /// What is taken to limit the program now.
    pub const fn limit(&self) -> Limit {
        self.believed
    }

    fn believe(&mut self, found: Limit) {
        // More priority for nobody is the answer to both.
        let found = if found == Limit::Buffers { Limit::Unknown } else { found };
        self.named = if found == self.rival { self.named.saturating_add(1) } else { 1 };
        self.rival = found;
        if self.named >= if found == Limit::Unknown { PATIENCE } else { AGREEMENT } {
            self.believed = found;
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

    fn with_device(cpu_used: u64, busy: u64) -> MachineObservation {
        MachineObservation { device_busy: Some(Span::from_millis(busy)), ..machine(cpu_used) }
    }

    #[test]
    fn the_stages_that_use_what_limits_are_raised_from_the_third_time_on() {
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
            assert_eq!(controller.limit(), limit);
        }
    }

    #[test]
    fn another_limit_takes_over_after_as_many_times() {
        let mut controller = PriorityController::new();
        (0..9).for_each(|_| drop(controller.decide(&three(50, 97, 50), &machine(195)).to_vec()));
        let (stages, machine) = (three(98, 30, 10), machine(60));
        assert_eq!(controller.decide(&stages, &machine), [Neutral, Raised, Neutral]);
        assert_eq!(controller.decide(&stages, &machine), [Neutral, Raised, Neutral]);
        assert_eq!(controller.decide(&stages, &machine), [Raised, Neutral, Neutral]);
    }

    #[test]
    fn what_no_longer_stands_out_is_favoured_for_a_while() {
        let mut controller = PriorityController::new();
        (0..3).for_each(|_| drop(controller.decide(&three(50, 97, 50), &machine(195)).to_vec()));
        for _ in 1..PATIENCE {
            assert_eq!(controller.decide(&three(50, 60, 50), &machine(100)), [Neutral, Raised, Neutral]);
        }
        assert_eq!(controller.decide(&three(50, 60, 50), &machine(100)), [Neutral; 3]);
    }

    #[test]
    fn a_burst_that_is_over_before_it_is_believed_changes_nothing() {
        let mut controller = PriorityController::new();
        for _ in 0..20 {
            for (stages, machine) in [(three(50, 97, 50), machine(195)), (three(98, 30, 10), machine(60))] {
                assert_eq!(controller.decide(&stages, &machine), [Neutral; 3]);
                assert_eq!(controller.decide(&stages, &machine), [Neutral; 3]);
            }
        }
    }

    #[test]
    fn who_starves_is_raised_at_once_and_for_one_period() {
        let mut controller = PriorityController::new();
        (0..3).for_each(|_| drop(controller.decide(&three(50, 97, 50), &machine(195)).to_vec()));
        let mut stages = three(95, 97, 5);
        stages[0].waiting_for_cpu = Span::from_millis(95);
        assert_eq!(controller.decide(&stages, &machine(195)), [Raised, Raised, Neutral]);
        assert_eq!(controller.decide(&three(50, 97, 50), &machine(195)), [Neutral, Raised, Neutral]);
    }

    #[test]
    fn where_all_would_be_raised_nobody_is() {
        let mut controller = PriorityController::new();
        let stages = [stage(StageKind::Compute, 98), stage(StageKind::Compute, 97)];
        assert!((0..9).all(|_| controller.decide(&stages, &machine(195)) == [Neutral; 2]));
    }

    #[test]
    fn another_number_of_stages_is_another_pipeline() {
        let mut controller = PriorityController::new();
        (0..3).for_each(|_| drop(controller.decide(&three(50, 97, 50), &machine(195)).to_vec()));
        assert_eq!(controller.decide(&three(50, 97, 50)[..2], &machine(195)), [Neutral; 2]);
        assert!(controller.decide(&[], &machine(195)).is_empty());
    }

    proptest! {
        #[test]
        fn nobody_is_lowered_and_some_are_left_to_be_preferred_to(
            periods in prop::collection::vec((any_stages(), any_machine()), 0..40),
        ) {
            let (mut controller, mut again) = (PriorityController::new(), PriorityController::new());
            for (stages, machine) in &periods {
                let priorities = controller.decide(stages, machine).to_vec();
                prop_assert_eq!(priorities.len(), stages.len());
                prop_assert!(!priorities.contains(&StagePriority::Lowered));
                prop_assert!(priorities.is_empty() || priorities.contains(&Neutral));
                prop_assert_eq!(&priorities, again.decide(stages, machine), "told the same, it decides the same");
            }
        }

        #[test]
        fn favours_change_no_more_often_than_agreement_allows(
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
