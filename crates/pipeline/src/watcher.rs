//! Observes a run periodically, for a rule that considers all stages together.

use policy::Span;
use policy::priority::{PriorityController, StageObservation};

use crate::counters::Takes;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::thread_table::ThreadTable;

pub(crate) struct Watcher {
    controller: PriorityController,
    before: Vec<StageObservation>,
    takes_before: Vec<Takes>,
    interval: Interval,
}

impl Watcher {
    pub(crate) fn new(controller: PriorityController, registry: &Registry) -> Watcher {
        let (before, takes_before) = (registry.observe(0), registry.takes());
        Watcher { controller, before, takes_before, interval: Interval::new(PriorityController::PERIOD) }
    }

    /// Observes once in each period. `now` is in nanoseconds since the beginning of the run.
    pub(crate) fn observe(&mut self, now: u64, registry: &Registry, table: &ThreadTable, machine: &mut Machine) {
        if self.interval.next(now).is_none() {
            return;
        }
        let (now, takes) = (registry.observe(now), registry.takes());
        let since = now.iter().zip(&self.before).enumerate().map(|(at, (now, before))| StageObservation {
            busy: later(now.busy, before.busy),
            starved: later(now.starved, before.starved),
            blocked: later(now.blocked, before.blocked),
            queued: takes[at].since(self.takes_before[at]).queued(registry.buffers(at)),
            ..*now
        });
        let mut since: Vec<StageObservation> = since.collect();
        (self.before, self.takes_before) = (now, takes);
        table.add_waits(registry, &mut since);
        table.adjust_priorities(self.controller.decide(&since, &machine.since_last()), registry);
    }
}

/// The increase. Estimates may decrease a little, which counts as zero.
fn later(now: Span, before: Span) -> Span {
    Span::from_nanos(now.as_nanos().saturating_sub(before.as_nanos()))
}
