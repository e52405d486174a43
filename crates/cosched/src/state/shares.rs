//! The share of a user, in a table of several users: what the jobs of one user may take from those
//! of others. Root has no limits.

use policy::JobId;

use super::{Entering, Job, ROOT, State, StateError};
use crate::process_list::PLACES;

/// The largest weight of a job.
const WEIGHT: u32 = 8;
/// The largest sum of the weights of a user's jobs. A round of turns has room for many users.
const WEIGHTS: u32 = 64;
/// The most jobs of a user.
const JOBS: usize = 64;
/// The most processes of a user's jobs that are stopped and continued, and the most ranks, unless
/// the machine has more CPUs. Each takes some 50 us at both ends of a turn, also if it sleeps.
const PROCESSES: usize = 128;

/// A user asks for more than a share.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// The weight is too large.
    #[error("the weight of a job is at most {WEIGHT} in a table of several users")]
    Weight,
    /// The weights are too large.
    #[error("the weights of all jobs of a user are at most {WEIGHTS} together; the present ones have {0}")]
    Weights(u32),
    /// There are too many jobs.
    #[error("a user has at most {JOBS} jobs at a time")]
    Jobs,
    /// There are too many ranks.
    #[error("all jobs of a user have at most {most} ranks together here; the present ones have {present}")]
    Ranks {
        /// The most.
        most: usize,
        /// Those of the present jobs.
        present: usize,
    },
    /// The process acts for another job.
    #[error("the process that asks has a job already: {0}")]
    Process(JobId),
}

impl State {
    /// Refuses a job that is more than its user may have.
    pub(super) fn check_share(&self, entering: &Entering) -> Result<(), ShareError> {
        let Some(client) = entering.client else { return Ok(()) };
        if let Some((id, _)) = self.jobs().find(|(_, job)| job.client.is_some_and(|of| of.process == client.process)) {
            return Err(ShareError::Process(id));
        }
        if client.user == ROOT {
            return Ok(());
        }
        let (present, most) =
            (self.of_user(client.user).map(|(_, job)| job.ranks as usize).sum(), self.most_processes());
        match entering.ranks as usize {
            _ if self.of_user(client.user).count() >= JOBS => Err(ShareError::Jobs),
            ranks if ranks.saturating_add(present) > most => Err(ShareError::Ranks { most, present }),
            _ => self.check_weight(client.user, None, entering.weight),
        }
    }

    /// Refuses a weight that this user gives to a job, or to a new one, if it is too large, alone
    /// or with those of the user's other jobs.
    pub(crate) fn check_weight(&self, user: u32, of: Option<JobId>, weight: u32) -> Result<(), ShareError> {
        let weight_of = |(id, job): (_, &Job)| self.facts(id).map_or(job.queued_weight(), |facts| facts.weight);
        let others = self.of_user(user).filter(|&(id, _)| Some(id) != of).map(weight_of).fold(0, u32::saturating_add);
        match weight {
            _ if user == ROOT => Ok(()),
            weight if weight > WEIGHT => Err(ShareError::Weight),
            weight if weight.saturating_add(others) > WEIGHTS => Err(ShareError::Weights(others)),
            _ => Ok(()),
        }
    }

    /// Makes room for more processes of a job, as far as its user may have them. Returns whether
    /// there is more than before.
    ///
    /// # Errors
    /// [`StateError::Unknown`].
    pub(crate) fn reserve(&mut self, id: JobId, processes: usize) -> Result<bool, StateError> {
        let (before, user) = (self.job(id)?.places(), self.job(id)?.user());
        let left = user.map_or(0, |user| self.places_left(user)) + before;
        // A job grows only a few times: each change wakes all agents.
        let places = if processes > before { processes.next_power_of_two().min(left).max(before) } else { before };
        if let Some(reserved) = self.jobs.get_mut(&id).and_then(|job| job.places.as_mut()) {
            *reserved = places as u16;
        }
        Ok(places > before)
    }

    /// The places that a job which is entered needs at once, as far as its user may have them.
    /// `None` if there is no limit.
    pub(super) fn places(&self, entering: &Entering) -> Option<u16> {
        let client = entering.client.filter(|client| client.user != ROOT)?;
        (entering.ranks as usize).min(self.places_left(client.user)).try_into().ok()
    }

    fn places_left(&self, user: u32) -> usize {
        let all: usize = self.of_user(user).map(|(_, job)| job.places()).sum();
        self.most_processes().saturating_sub(all)
    }

    fn most_processes(&self) -> usize {
        PROCESSES.max(self.topology.cpus()).min(PLACES)
    }

    fn of_user(&self, user: u32) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs().filter(move |(_, job)| job.user() == Some(user))
    }
}

impl Job {
    /// How many of its processes are stopped and continued.
    pub(crate) fn places(&self) -> usize {
        self.places.map_or(PLACES, usize::from)
    }
}

#[cfg(test)]
mod tests;
