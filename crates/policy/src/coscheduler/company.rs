//! Jobs that idle in their turns, and those that accompany them: see
//! [`Idling`](crate::gang::Idling).
//!
//! A job runs in the turns of another slice if all jobs that have its cells there are `adaptive`
//! and idle, and if that is so in all slices between that turn and its own next one. So of the jobs
//! that run on a cell in turn, at most one does not idle. The order of turns remains, and no job
//! loses one. A job that is `strict` or `moderate` keeps the others away from its turns, as the
//! sources have it.

use super::{Coscheduler, CoschedulingError};
use crate::slices::{Movement, SliceError};
use crate::units::{Instant, JobId};

impl Coscheduler {
    /// Tells whether a job idles in its turns. It takes effect at once.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`].
    pub fn set_idles(&mut self, job: JobId, idles: bool) -> Result<(), CoschedulingError> {
        self.jobs.get_mut(&job).ok_or(SliceError::Unknown(job))?.facts.idles = idles;
        Ok(())
    }

    /// Whether it is the turn of a job that takes turns.
    pub fn has_turn(&self, job: JobId, now: Instant) -> bool {
        let takes_turns = self.facts(job).is_some_and(|facts| facts.takes_turns());
        takes_turns && self.active(now).is_some_and(|slice| self.is_in(job, slice))
    }

    /// Whether a job that takes turns has one, or accompanies those that do.
    pub(super) fn is_active(&self, job: JobId, now: Instant) -> bool {
        let Some(table) = self.turns.in_force(now) else { return false };
        let slices = self.slices(now);
        // Where jobs move, it has no cells in the slices of others.
        let cells = self.table.rectangle(self.task(job)).ok().filter(|_| self.movement == Movement::Never);
        let mut following = table.round_from(now).filter_map(|number| slices.get(number as usize));
        let last = following.find(|slice| {
            let in_its_way = |cells| slice.jobs.iter().filter(move |(_, others)| others.overlaps(cells));
            self.is_in(job, slice) || !cells.is_some_and(|cells| in_its_way(cells).all(|&(task, _)| self.idles(task)))
        });
        last.is_some_and(|slice| self.is_in(job, slice))
    }

    /// Whether all jobs of a task that take turns idle.
    fn idles(&self, task: JobId) -> bool {
        let mut taking_turns = self.members(task).filter(|(_, of)| of.facts.takes_turns()).peekable();
        // One that was released may still be in the slices in force.
        taking_turns.peek().is_some() && taking_turns.all(|(_, of)| of.facts.is_accompanied())
    }
}

#[cfg(test)]
mod tests;
