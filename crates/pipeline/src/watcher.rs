//! Watches a run while it goes on, for a rule that looks at all stages together.

use policy::Span;
use policy::priority::{Overseer, StageObservation};

use crate::machine::Machine;
use crate::registry::Registry;
use crate::roll::Roll;

/// What it needs from one look to the next.
pub(crate) struct Watcher {
    overseer: Overseer,
    before: Vec<StageObservation>,
    /// When it last looked, in nanoseconds since the beginning of the run.
    last: u64,
}

impl Watcher {
    pub(crate) fn new(overseer: Overseer, registry: &Registry) -> Watcher {
        Watcher { overseer, before: registry.observe(0), last: 0 }
    }

    /// Looks, if it is time to at `now`, in nanoseconds since the beginning of the run.
    pub(crate) fn look(&mut self, now: u64, registry: &Registry, roll: &Roll, machine: &mut Machine) {
        if !is_due(self.last, now) {
            return;
        }
        self.last = now;
        let now = registry.observe(now);
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

/// Whether who last looked at one time is to look at another, both in nanoseconds.
fn is_due(last: u64, now: u64) -> bool {
    now.saturating_sub(last) >= Overseer::PERIOD.as_nanos()
}

/// What is reckoned from samples may seem to go back a little.
fn later(now: Span, before: Span) -> Span {
    Span::from_nanos(now.as_nanos().saturating_sub(before.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_once_in_each_period() {
        let period = Overseer::PERIOD.as_nanos();
        assert!(!is_due(0, period - 1) && is_due(0, period));
        assert!(!is_due(period, 2 * period - 1) && is_due(period, 2 * period));
        assert!(!is_due(period, 0));
    }
}
