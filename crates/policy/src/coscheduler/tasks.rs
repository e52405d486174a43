//! Jobs that cooperate: one task, which is in the slices for all of them.
//!
//! Source: our own, as `slices::grow`, which finds their cells. A task takes turns as long as one
//! of its jobs does, and weighs as much as the heaviest one. In its turns all of its jobs are
//! active. A job of it that takes no turns is active all the time. It keeps the number of its first
//! job, also when that one is released before others.

use super::{Coscheduler, CoschedulingError, Job, JobFacts, Placed};
use crate::gang::{Class, Gang};
use crate::layout::{Rectangle, Request};
use crate::slices::{Movement, Slice, SliceError};
use crate::units::{Instant, JobId};

impl Coscheduler {
    /// Enters a job that cooperates with another one: it has its turns when that one has them. It
    /// gets cells beside that one, or shares them if the mesh is too small for both. It does not
    /// wait.
    ///
    /// # Errors
    ///
    /// Those of [`enter_as`](Self::enter_as); [`SliceError::Unknown`] and [`SliceError::Waiting`]
    /// with the number of the other job; [`CoschedulingError::Along`].
    pub fn enter_along(
        &mut self,
        job: JobId,
        with: JobId,
        gang: Gang,
        request: Request,
        weight: u32,
        now: Instant,
    ) -> Result<Rectangle, CoschedulingError> {
        self.check_gang(gang)?;
        if self.jobs.contains_key(&job) || self.table.rectangle(job) != Err(SliceError::Unknown(job)) {
            return Err(SliceError::Twice(job).into());
        }
        if !self.jobs.contains_key(&with) {
            return Err(SliceError::Unknown(with).into());
        }
        if self.movement != Movement::Never {
            return Err(CoschedulingError::Along(with));
        }
        let facts = JobFacts { gang, weight: weight.max(1), class: Class::Unknown, is_held: false, idles: false };
        let weights = self.weights_with(None, facts.weight)?;
        let task = self.task(with);
        let whole = self.table.rectangle(task)?;
        let members: Vec<Rectangle> =
            self.members(task).map(|(_, of)| of.member.map_or(whole, |(_, own)| own)).collect();
        let cells = self.table.find_beside(task, &members, request)?;
        // The first member has been alone until now.
        self.jobs.entry(with).and_modify(|of| _ = of.member.get_or_insert((task, whole)));
        self.jobs.insert(job, Job { facts, alone: None, member: Some((task, cells)) });
        self.table.reshape(task, whole.enclosing(cells), self.weight(task), self.takes_turns(task))?;
        self.weights = weights;
        self.publish(now)?;
        Ok(cells)
    }

    /// The task that is in the slices for a job: its own number, unless it cooperates with others.
    pub fn task(&self, job: JobId) -> JobId {
        self.jobs.get(&job).and_then(|of| of.member).map_or(job, |(task, _)| task)
    }

    /// Whether a job is active in a slice: its task is, with cells for this job. A slice that is in
    /// force until the next boundary may be older than the job.
    pub(super) fn is_in(&self, job: JobId, slice: &Slice) -> bool {
        let Some(of) = self.jobs.get(&job) else { return false };
        let (task, own) = of.member.map_or((job, None), |(task, own)| (task, Some(own)));
        let mut tasks = slice.jobs.iter().filter(|(other, _)| *other == task);
        tasks.any(|(_, whole)| own.is_none_or(|own| whole.enclosing(own) == *whole))
    }

    /// Takes a job that was removed out of its task.
    pub(super) fn leave_task(&mut self, job: JobId, released: Job) -> Result<Placed, SliceError> {
        let task = released.member.map_or(job, |(task, _)| task);
        let cells = self.members(task).filter_map(|(_, of)| Some(of.member?.1));
        match cells.reduce(Rectangle::enclosing) {
            None => self.table.release(task),
            Some(cells) => self.table.reshape(task, cells, self.weight(task), self.takes_turns(task)),
        }
    }

    /// The jobs of a task.
    pub(super) fn members(&self, task: JobId) -> impl Iterator<Item = (JobId, &Job)> {
        let alone = self.jobs.get_key_value(&task).filter(|(_, of)| of.member.is_none());
        let is_member = move |(_, of): &(_, &Job)| of.member.is_some_and(|(other, _)| other == task);
        let members = alone.is_none().then(|| self.jobs.iter().filter(is_member)).into_iter().flatten();
        alone.into_iter().chain(members).map(|(&job, of)| (job, of))
    }

    pub(super) fn takes_turns(&self, task: JobId) -> bool {
        self.members(task).any(|(_, of)| of.facts.takes_turns())
    }

    pub(super) fn weight(&self, task: JobId) -> u32 {
        self.members(task).map(|(_, of)| of.facts.weight).max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests;
