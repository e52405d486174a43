//! Watches a run while it goes on, for a rule that looks at all stages together.

use std::time::{Duration, Instant};

use policy::Span;
use policy::priority::{Overseer, StageObservation};

use crate::engine::Engine;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::roll::Roll;

/// What it needs from one look to the next.
pub(crate) struct Watcher {
    overseer: Overseer,
    before: Vec<StageObservation>,
    last: Instant,
}

impl Watcher {
    pub(crate) fn new(overseer: Overseer, registry: &Registry) -> Watcher {
        Watcher { overseer, before: registry.observe(0), last: Instant::now() }
    }

    /// Looks, if it is time to.
    pub(crate) fn look<T>(&mut self, engine: &Engine<'_, T>, registry: &Registry, roll: &Roll, machine: &mut Machine) {
        if self.last.elapsed() < Duration::from_nanos(Overseer::PERIOD.as_nanos()) {
            return;
        }
        self.last = Instant::now();
        let now = registry.observe(engine.since_beginning());
        let since = now.iter().zip(&self.before).map(|(now, before)| StageObservation {
            busy: later(now.busy, before.busy),
            starved: later(now.starved, before.starved),
            blocked: later(now.blocked, before.blocked),
            ..*now
        });
        let mut since: Vec<StageObservation> = since.collect();
        self.before = now;
        roll.add_waits(registry, &mut since);
        roll.oversee(&mut self.overseer, registry, &since, &machine.since_last());
    }
}

/// What is reckoned from samples may seem to go back a little.
fn later(now: Span, before: Span) -> Span {
    Span::from_nanos(now.as_nanos().saturating_sub(before.as_nanos()))
}
