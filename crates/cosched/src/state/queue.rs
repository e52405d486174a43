//! The queue: jobs that wait until no other job has their cells, or until there is memory for them.
//!
//! First come, first served among the jobs of a user: only the first one can start, so none
//! overtakes another, and a large job starts at last. The jobs of other users do not wait for it:
//! it may have asked for more than there will ever be. Neither do jobs that do not wait.
//!
//! A job in the queue is in the table, with its agent: if that is killed, the job vanishes as every
//! other does.

use policy::gang::Gang;
use policy::layout::Request;
use policy::{Instant, JobId};
use serde::{Deserialize, Serialize};

use super::{Entering, Job, State, StateError};

/// The request of a job in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queued {
    request: Option<Request>,
    weight: u32,
    gang: Gang,
    waits_for_cells: bool,
}

impl Queued {
    /// `None` if the job does not wait.
    pub(super) fn new(entering: &Entering) -> Option<Queued> {
        let &Entering { request, weight, gang, waits_for_cells, memory, .. } = entering;
        (waits_for_cells || memory.is_some()).then_some(Queued { request, weight, gang, waits_for_cells })
    }
}

impl Job {
    /// Whether it waits in the queue. It has no processes then.
    pub fn is_queued(&self) -> bool {
        self.queued.is_some()
    }

    /// The weight that it will have. Zero if it does not wait.
    pub(super) fn queued_weight(&self) -> u32 {
        self.queued.map_or(0, |queued| queued.weight)
    }
}

impl State {
    /// The jobs that wait, in their order.
    pub fn queue(&self) -> impl Iterator<Item = JobId> {
        self.jobs.iter().filter(|(_, job)| job.is_queued()).map(|(&id, _)| id)
    }

    /// The jobs that wait with this one: those of its user, in their order.
    pub(crate) fn queue_of(&self, id: JobId) -> impl Iterator<Item = JobId> {
        let user = self.jobs.get(&id).and_then(Job::user);
        self.queue().filter(move |other| self.jobs.get(other).is_some_and(|job| job.user() == user))
    }

    /// Lets the first job of its user in the queue start, if its cells are free, and this many
    /// bytes of memory are enough for it. Returns whether it has.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn admit(&mut self, id: JobId, memory_left: u64, now: Instant) -> Result<bool, StateError> {
        let is_first = self.queue_of(id).next() == Some(id);
        let job = self.job(id)?;
        let Some(queued) = job.queued.filter(|_| is_first && job.memory.is_none_or(|claim| claim <= memory_left))
        else {
            return Ok(false);
        };
        let request = match queued.request {
            Some(request) if queued.waits_for_cells => match self.coscheduler.find_unused(request) {
                Some(cells) => Some(Request::At(cells)),
                None => return Ok(false),
            },
            request => request,
        };
        let cells = self.place(id, request, None, queued.gang, queued.weight, now)?;
        if let Some(job) = self.jobs.get_mut(&id) {
            (job.cells, job.queued, job.entered) = (cells, None, now);
        }
        Ok(true)
    }

    /// Refuses a job that waits.
    pub(super) fn require_start(&self, id: JobId) -> Result<(), StateError> {
        if self.job(id)?.is_queued() { Err(StateError::Queued(id)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
