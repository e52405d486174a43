//! Which `adaptive` jobs idle in their turns, so that the next one accompanies them.
//!
//! The first cell notes at each of its looks which jobs may run until the next one. When it acts on
//! a boundary, the turns before it have ended. If a job idles from then on, or no longer, all cells
//! look once more at this moment.

use policy::gang::{Action, Gang, Idling};
use policy::record::Recorder;
use policy::{Instant, JobId};

use super::Engine;
use super::coscheduling::Coscheduling;
use super::device::TimedEvent;
use super::observer::Observer;
use super::scheduler::Scheduler;

impl<S: Scheduler, R: Recorder + Default, W: Observer + ?Sized> Engine<'_, S, R, W> {
    /// The first cell has looked at its clock. If it has acted on a boundary, turns have ended.
    pub(super) fn note_use_of_turns(&mut self, clock: Instant, have_ended: bool) {
        let now = self.now;
        let Some(of) = &mut self.coscheduling else { return };
        if of.rules.how != Gang::Adaptive || of.moves() {
            return;
        }
        let elapsed = clock.since(std::mem::replace(&mut of.looked, clock));
        let Coscheduling { decisions, uses, .. } = of;
        let mut is_changed = false;
        for ((number, using), job) in (0..).zip(uses).zip(self.workload.jobs.there()) {
            let id = JobId(number);
            let Some((facts, cells)) = decisions.facts(id).zip(decisions.cells(id, clock)) else { continue };
            if !facts.takes_turns() {
                using.idling = Idling::default();
            }
            if using.runs {
                using.idling.allow(elapsed);
            }
            if using.has_turn && have_ended {
                let wanted = job.demand.until(now);
                let idles = using.idling.end_turn(wanted - using.wanted, job.threads.len() as u32, cells.shape.cells());
                using.wanted = wanted;
                // It has been found there.
                is_changed |= idles != facts.idles && decisions.set_idles(id, idles).is_ok();
            }
            (using.runs, using.has_turn) = (decisions.action(id, clock) == Action::Run, decisions.has_turn(id, clock));
        }
        if is_changed {
            self.set_timed_event(now, TimedEvent::Accompany);
        }
    }
}
