//! The queue: jobs that wait until no other job has their cells, or until there is memory for them.
//!
//! First come, first served among the jobs of a user: only the first one can start, so none
//! overtakes another, and a large job starts at last. The jobs of other users do not wait for it:
//! it may have asked for more than there will ever be. Neither do jobs that do not wait.
//!
//! A job in the queue is in the table, with its agent: if that is killed, the job vanishes as every
//! other does.

use std::collections::BTreeSet;

use policy::gang::Gang;
use policy::layout::Request;
use policy::{Instant, JobId};
use serde::{Deserialize, Serialize};
use sys::identity::Identity;

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
    /// The jobs that do not wait, in the order in which they were entered.
    pub(super) fn started(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs().filter(|(_, job)| !job.is_queued())
    }

    /// The jobs that wait, in their order.
    pub fn queue(&self) -> impl Iterator<Item = JobId> {
        self.jobs.iter().filter(|(_, job)| job.is_queued()).map(|(&id, _)| id)
    }

    /// The jobs that wait with this one: those of its user, in their order.
    pub(crate) fn queue_of(&self, id: JobId) -> impl Iterator<Item = JobId> {
        let user = self.jobs.get(&id).and_then(Job::user);
        self.queue().filter(move |other| self.jobs.get(other).is_some_and(|job| job.user() == user))
    }

    /// The first job of each user in the queue. The others wait for these.
    pub(crate) fn first_in_queue(&self) -> impl Iterator<Item = JobId> {
        let mut users = BTreeSet::new();
        self.queue().filter(move |id| self.jobs.get(id).is_some_and(|job| users.insert(job.user())))
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

    /// Releases the jobs whose agents are not alive, and returns them: those that have started, and
    /// those in the queue behind which a living one would be the first. Others delay none, and
    /// there may be thousands.
    pub(crate) fn release_ended(
        &mut self,
        is_alive: impl Fn(Identity) -> bool,
        now: Instant,
    ) -> Result<Vec<JobId>, StateError> {
        let mut waiting_users = BTreeSet::new();
        let has_ended = |(_, job): &(&JobId, &Job)| {
            let delays = !job.is_queued() || !waiting_users.contains(&job.user());
            let has_ended = delays && !is_alive(job.agent);
            if job.is_queued() && !has_ended {
                waiting_users.insert(job.user());
            }
            has_ended
        };
        let ended: Vec<JobId> = self.jobs.iter().filter(has_ended).map(|(&id, _)| id).collect();
        ended.iter().try_for_each(|&id| self.release(id, now))?;
        Ok(ended)
    }

    /// Whether nothing differs for the jobs that have started: only others have come or gone.
    pub(crate) fn differs_in_queue_alone(&self, before: &State) -> bool {
        self.started().eq(before.started()) && self.coscheduler.snapshot() == before.coscheduler.snapshot()
    }

    /// Refuses a job that waits.
    pub(super) fn require_start(&self, id: JobId) -> Result<(), StateError> {
        if self.job(id)?.is_queued() { Err(StateError::Queued(id)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
