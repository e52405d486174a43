//! All decisions of co-scheduling together: which cells a job gets, whose turn it is, and what
//! happens to the others.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes",
//! section 3: [`SliceTable`] is their `bootap+`, [`TurnTable`] the slice queue in each kernel, and
//! [`Gang`] the priority control.
//!
//! A world enters each job when it arrives, and releases it when it ends. Each cell asks for the
//! [action](Coscheduler::action) of its jobs at each boundary, with the time on its own clock. A
//! change of the slices takes effect at the next boundary of the table in force. If that has one
//! slice at the most, or comes into force at this very moment, no job loses a turn, and the change
//! takes effect at once.
//!
//! * `none`, `implicit`, `dynamic`: jobs get cells by the same table as under `moderate`, so that
//!   only the time differs, but take no turns.
//! * `cellos`: one job at a time, on the first cells of the machine; the others wait in order of
//!   arrival.
//! * `original`: every job is laid out from the first cell. The job that the first cell's local
//!   scheduler runs is [active](Coscheduler::follow).
//! * `adaptive`: the class of each job is [told](Coscheduler::set_class) as long as it runs. A
//!   job that does not wait by spinning leaves the slices but keeps its cells.
//!
//! Where jobs take turns by a table, each may have [a way of its own](Coscheduler::enter_as):
//! `none`, `moderate`, `strict` or `adaptive`. A job that is [held](Coscheduler::set_held) is
//! stopped, and takes no turns. Jobs that [cooperate](Coscheduler::enter_along) have all their
//! turns together. A job that [idles](Coscheduler::set_idles) in its turns is accompanied by the
//! next one.

mod company;
mod snapshot;
mod tasks;

use std::collections::{BTreeMap, VecDeque};

pub use self::snapshot::{JobSnapshot, Snapshot};
pub use crate::slices::RestoreError;

use crate::gang::{Action, Class, Gang};
use crate::layout::{Mesh, Occupancy, Partitioner, Rectangle, Request};
use crate::slices::{Entry, Movement, Slice, SliceError, SliceTable, check_request};
use crate::turn::{self, LONGEST_ROUND, Rotation, TurnError, TurnTable, Turns};
use crate::units::{Instant, JobId, Span};

/// The rules by which jobs share a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The way in which jobs share the machine.
    pub gang: Gang,
    /// How a job finds its cells.
    pub partitioner: Partitioner,
    /// Whether a job may have other cells in another slice.
    pub movement: Movement,
    /// The most slices, where zero counts as one; `None` if there is no limit. Jobs that would need
    /// more wait in order of arrival, except those that were placed already.
    pub most_slices: Option<u32>,
    /// Whether a new job avoids the cells of jobs that take no turns, where it can without one more
    /// slice.
    pub avoid_jobs_beside: bool,
    /// How long a slice is active; zero counts as one nanosecond.
    pub slice: Span,
    /// How far the clock of a cell may be behind the times at which jobs are entered, released and
    /// observed. A clock that lags further may find no slice, or a later one.
    pub lag: Span,
}

/// The jobs that had to wait and have been placed, with their cells, in the order of their arrival.
pub type Placed = Vec<(JobId, Rectangle)>;

/// The decisions for all jobs of a machine.
#[derive(Clone, Debug)]
pub struct Coscheduler {
    gang: Gang,
    movement: Movement,
    lag: Span,
    table: SliceTable,
    rotation: Rotation,
    jobs: BTreeMap<JobId, Job>,
    /// How many jobs have each weight, if they take turns.
    weights: BTreeMap<u32, u64>,
    /// `cellos`: the job that has the machine, and those that wait for it.
    queue: VecDeque<JobId>,
    /// `original`: the job that the first cell runs.
    followed: Option<JobId>,
    turns: Turns,
    /// The slices of the tables of turns that are known, by their versions.
    published: BTreeMap<u64, Vec<Slice>>,
    most_slices: usize,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    facts: JobFacts,
    /// Its cells without slices: `None` if the table of slices has them.
    alone: Option<Rectangle>,
    /// If it cooperates with others or did so: the task of all, and its own cells.
    member: Option<(JobId, Rectangle)>,
}

/// The facts about a job by which is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobFacts {
    /// Its way to share the machine.
    pub gang: Gang,
    /// Its share of the turns, relative to other jobs.
    pub weight: u32,
    /// Its behaviour.
    pub class: Class,
    /// Whether it is stopped until it is no longer held.
    pub is_held: bool,
    /// Whether it idles in its turns.
    #[cfg_attr(feature = "serde", serde(default))]
    pub idles: bool,
}

impl JobFacts {
    /// Whether it takes turns: it is in a slice, unless it waits for cells.
    pub const fn takes_turns(&self) -> bool {
        self.gang.takes_turns(self.class) && !self.is_held
    }

    /// Whether the next job runs in its turns, too.
    pub const fn is_accompanied(&self) -> bool {
        self.takes_turns() && self.idles && matches!(self.gang, Gang::Adaptive)
    }
}

/// The reason why a job cannot be entered, released or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoschedulingError {
    /// The table of slices refuses it.
    #[error(transparent)]
    Slices(#[from] SliceError),
    /// The weights allow no table of turns.
    #[error(transparent)]
    Turns(#[from] TurnError),
    /// Jobs of these two ways cannot share a machine.
    #[error("a job cannot be scheduled as `{job}` on a machine whose jobs are scheduled as `{machine}`")]
    Gang {
        /// The way of the job.
        job: Gang,
        /// The way of the machine.
        machine: Gang,
    },
    /// The turns of jobs cannot be those of others here.
    #[error("jobs cannot cooperate with job {0} where jobs take no turns or move")]
    Along(JobId),
}

impl Coscheduler {
    /// No jobs on a mesh.
    pub fn new(mesh: Mesh, rules: Rules) -> Coscheduler {
        Coscheduler {
            gang: rules.gang,
            movement: rules.movement,
            lag: rules.lag,
            table: SliceTable::new(mesh, rules.partitioner, rules.movement, rules.most_slices)
                .avoiding_jobs_beside(rules.avoid_jobs_beside),
            rotation: Rotation::new(rules.slice),
            jobs: BTreeMap::new(),
            weights: BTreeMap::new(),
            queue: VecDeque::new(),
            followed: None,
            turns: Turns::new(),
            published: BTreeMap::new(),
            most_slices: 0,
        }
    }

    /// Enters a job with a weight of at least one; zero counts as one.
    ///
    /// # Errors
    ///
    /// [`SliceError::TooLarge`], [`SliceError::OffMesh`], [`SliceError::Twice`], and, if jobs take
    /// turns, [`TurnError::TooLong`]: a round would be too long if each job had a slice of its own.
    /// So no later change makes it too long. Nothing has changed then.
    pub fn enter(
        &mut self,
        job: JobId,
        request: Request,
        weight: u32,
        now: Instant,
    ) -> Result<Entry, CoschedulingError> {
        self.enter_with(job, self.gang, request, weight, now)
    }

    /// Enters a job with its own way to share the machine, as [`enter`](Self::enter) does.
    ///
    /// # Errors
    ///
    /// Those of [`enter`](Self::enter), and [`CoschedulingError::Gang`].
    pub fn enter_as(
        &mut self,
        job: JobId,
        gang: Gang,
        request: Request,
        weight: u32,
        now: Instant,
    ) -> Result<Entry, CoschedulingError> {
        self.check_gang(gang)?;
        self.enter_with(job, gang, request, weight, now)
    }

    fn enter_with(
        &mut self,
        job: JobId,
        gang: Gang,
        request: Request,
        weight: u32,
        now: Instant,
    ) -> Result<Entry, CoschedulingError> {
        if self.jobs.contains_key(&job) {
            return Err(SliceError::Twice(job).into());
        }
        let facts = JobFacts { gang, weight: weight.max(1), class: Class::Unknown, is_held: false, idles: false };
        let weights = self.weights_with(None, facts.weight)?;
        let (entry, alone) = match self.gang {
            Gang::CellOs | Gang::Original => {
                let place = self.first_place(request)?;
                let waits = self.gang == Gang::CellOs && !self.queue.is_empty();
                self.queue.push_back(job);
                (if waits { Entry::Waits } else { Entry::Placed(place) }, Some(place))
            }
            Gang::Moderate | Gang::Strict | Gang::Adaptive if !facts.takes_turns() => {
                (self.table.enter_beside(job, request, weight)?, None)
            }
            _ => (self.table.enter(job, request, weight)?, None),
        };
        self.jobs.insert(job, Job { facts, alone, member: None });
        self.weights = weights;
        self.publish(now)?;
        Ok(entry)
    }

    /// Releases the cells of a job, or its place among those that wait. Returns the jobs that had
    /// to wait and have been placed.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`].
    pub fn release(&mut self, job: JobId, now: Instant) -> Result<Placed, CoschedulingError> {
        let released = self.jobs.remove(&job).ok_or(SliceError::Unknown(job))?;
        remove_weight(&mut self.weights, released.facts.weight);
        let placed = match released.alone {
            Some(_) => {
                let had_the_machine = self.queue.front() == Some(&job);
                self.queue.retain(|&queued| queued != job);
                self.followed = self.followed.filter(|&followed| followed != job);
                let next = self.queue.front().filter(|_| self.gang == Gang::CellOs && had_the_machine);
                next.and_then(|&next| Some((next, self.jobs.get(&next)?.alone?))).into_iter().collect()
            }
            None => self.leave_task(job, released)?,
        };
        self.publish(now)?;
        Ok(placed)
    }

    /// Tells how a placed job behaves. Returns the jobs that had to wait and have been placed.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`], [`SliceError::Waiting`]. Nothing has changed then.
    pub fn set_class(&mut self, job: JobId, class: Class, now: Instant) -> Result<Placed, CoschedulingError> {
        self.change(job, now, |facts| facts.class = class)
    }

    /// Changes the way in which a placed job shares the machine. Returns the jobs that had to wait
    /// and have been placed.
    ///
    /// # Errors
    ///
    /// As [`set_class`](Self::set_class), and [`CoschedulingError::Gang`].
    pub fn set_gang(&mut self, job: JobId, gang: Gang, now: Instant) -> Result<Placed, CoschedulingError> {
        self.check_gang(gang)?;
        self.change(job, now, |facts| facts.gang = gang)
    }

    /// Holds a placed job, which is stopped at once, or lets it go on. Returns the jobs that had to
    /// wait and have been placed.
    ///
    /// # Errors
    ///
    /// As [`set_class`](Self::set_class).
    pub fn set_held(&mut self, job: JobId, is_held: bool, now: Instant) -> Result<Placed, CoschedulingError> {
        self.change(job, now, |facts| facts.is_held = is_held)
    }

    /// Gives a job another weight of at least one; zero counts as one.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`], and [`TurnError::TooLong`] as in [`enter`](Self::enter). Nothing
    /// has changed then.
    pub fn set_weight(&mut self, job: JobId, weight: u32, now: Instant) -> Result<(), CoschedulingError> {
        let before = self.facts(job).ok_or(SliceError::Unknown(job))?.weight;
        let weight = weight.max(1);
        self.weights = self.weights_with(Some(before), weight)?;
        let of = self.jobs.get_mut(&job).ok_or(SliceError::Unknown(job))?;
        of.facts.weight = weight;
        if of.alone.is_none() {
            let task = self.task(job);
            self.table.set_weight(task, self.weight(task))?;
        }
        self.publish(now)?;
        Ok(())
    }

    /// Changes a placed job. It enters or leaves the slices if it takes turns only before or after.
    fn change(
        &mut self,
        job: JobId,
        now: Instant,
        change: impl FnOnce(&mut JobFacts),
    ) -> Result<Placed, CoschedulingError> {
        let task = self.task(job);
        let took_turns = self.takes_turns(task);
        let of = self.jobs.get_mut(&job).ok_or(SliceError::Unknown(job))?;
        if of.alone.is_none() {
            self.table.rectangle(task)?;
        }
        change(&mut of.facts);
        let takes_turns = self.takes_turns(task);
        if took_turns == takes_turns {
            return Ok(Vec::new());
        }
        let placed = self.table.set_takes_turns(task, takes_turns)?;
        self.publish(now)?;
        Ok(placed)
    }

    /// `original`: the first cell's local scheduler runs a thread of this job. Returns whether
    /// another job has become active.
    pub fn follow(&mut self, job: JobId) -> bool {
        let is_new = self.gang == Gang::Original && self.jobs.contains_key(&job) && self.followed != Some(job);
        if is_new {
            self.followed = Some(job);
        }
        is_new
    }

    /// The scheduling of a job on a cell whose clock shows `now`.
    pub fn action(&self, job: JobId, now: Instant) -> Action {
        let Some(facts) = self.facts(job) else { return Action::Run };
        match facts.gang {
            _ if facts.is_held => Action::Stop,
            Gang::Original => Gang::Original.action(self.followed.is_none_or(|followed| followed == job)),
            gang if facts.takes_turns() => gang.action(self.is_active(job, now)),
            _ => Action::Run,
        }
    }

    /// The facts about a job. `None` if it is not entered.
    pub fn facts(&self, job: JobId) -> Option<JobFacts> {
        self.jobs.get(&job).map(|of| of.facts)
    }

    /// The cells of a job in the slice that is active at `now`, or those that it would have.
    pub fn cells(&self, job: JobId, now: Instant) -> Option<Rectangle> {
        let Job { alone, member, .. } = *self.jobs.get(&job)?;
        if let Some((_, cells)) = member {
            return Some(cells);
        }
        let in_slice = |slice: &Slice| slice.jobs.iter().find(|(other, _)| *other == job).map(|(_, cells)| *cells);
        let active = self.active(now).filter(|_| self.gang.has_table()).and_then(in_slice);
        active.or(alone).or_else(|| self.table.rectangle(job).ok())
    }

    /// The boundary after `now` at which a cell looks again. `None` if nothing changes with time.
    pub fn next_boundary(&self, now: Instant) -> Option<Instant> {
        // With one slice, nothing happens before the next table.
        let is_alone = self.turns.in_force(now).is_some_and(|table| table.order.len() <= 1);
        if is_alone { self.turns.next_table(now) } else { self.turns.next_boundary(now) }
    }

    /// The slices in force at `now`, in the order in which they were made. They have
    /// [tasks](Self::task).
    pub fn slices(&self, now: Instant) -> &[Slice] {
        let published = self.turns.in_force(now).and_then(|table| self.published.get(&table.version));
        published.map_or(&[], Vec::as_slice)
    }

    /// Cells for a request that no job has, not even for other turns. `None` if there are none. A
    /// job that enters with them runs in all slices.
    pub fn find_unused(&self, request: Request) -> Option<Rectangle> {
        self.table.find_unused(request)
    }

    /// The jobs that wait for cells, in the order of their arrival.
    pub fn waiting(&self) -> impl Iterator<Item = JobId> {
        let behind_another = if self.gang == Gang::CellOs { 1 } else { self.queue.len() };
        self.queue.iter().skip(behind_another).copied().chain(self.table.waiting())
    }

    /// The version of the last table of turns. It changes whenever the slices do; zero if there is
    /// none.
    pub fn version(&self) -> u64 {
        self.published.last_key_value().map_or(0, |(version, _)| *version)
    }

    /// The number of turns of a round of the table in force at `now`.
    pub fn round(&self, now: Instant) -> u64 {
        self.turns.in_force(now).map_or(0, |table| table.order.len() as u64)
    }

    /// The largest number of slices so far.
    pub fn most_slices(&self) -> usize {
        self.most_slices
    }

    fn active(&self, now: Instant) -> Option<&Slice> {
        self.slices(now).get(self.turns.active(now)? as usize)
    }

    /// The cells for a request on a machine without other jobs.
    fn first_place(&self, request: Request) -> Result<Rectangle, SliceError> {
        let mesh = self.table.mesh();
        check_request(request, mesh)?;
        // A job that the mesh can hold has room on an empty one.
        Ok(Partitioner::FirstFit.find(&Occupancy::new(mesh), request).unwrap_or(Rectangle::at_origin(mesh.shape())))
    }

    /// Refuses a way to share the machine that cannot be a job's own here.
    const fn check_gang(&self, gang: Gang) -> Result<(), CoschedulingError> {
        match self.gang.has_table() && (gang.has_table() || matches!(gang, Gang::None)) {
            true => Ok(()),
            false => Err(CoschedulingError::Gang { job: gang, machine: self.gang }),
        }
    }

    /// The weights with one more job of weight `new`, or with it instead of one of weight `old`.
    ///
    /// Refuses them if a round could be too long. Each slice has the weight of one of its single
    /// tasks, so there are no more places than if each job had a slice.
    fn weights_with(&self, old: Option<u32>, new: u32) -> Result<BTreeMap<u32, u64>, TurnError> {
        let mut weights = self.weights.clone();
        old.into_iter().for_each(|old| remove_weight(&mut weights, old));
        *weights.entry(new).or_default() += 1;
        self.check_round(&weights)?;
        Ok(weights)
    }

    /// Refuses so many jobs of these weights if a round could be too long.
    fn check_round(&self, weights: &BTreeMap<u32, u64>) -> Result<(), TurnError> {
        let jobs: Vec<_> = weights.iter().map(|(&weight, &jobs)| (weight, jobs)).collect();
        match turn::round_of_jobs(&jobs) {
            places if self.gang.has_table() && places > LONGEST_ROUND => Err(TurnError::TooLong(places)),
            _ => Ok(()),
        }
    }

    /// Publishes the slices, if they take turns and have changed. Never fails, because of
    /// [`weights_with`](Self::weights_with).
    fn publish(&mut self, now: Instant) -> Result<(), TurnError> {
        let slices = self.table.slices();
        self.most_slices = self.most_slices.max(slices.len());
        if !self.gang.has_table() || self.published.last_key_value().is_some_and(|(_, last)| last == slices) {
            return Ok(());
        }
        let has_begun = |table: &&TurnTable| table.order.len() > 1 && table.reference < now;
        let boundary = self.turns.in_force(now).filter(has_begun).map_or(now, |table| table.next_boundary(now));
        let table = self.rotation.publish(slices, boundary)?;
        self.published.insert(table.version, slices.to_vec());
        self.turns.publish(table);
        let earliest = Instant::ZERO + now.since(Instant::ZERO + self.lag);
        self.turns.forget_before(earliest);
        if let Some(oldest) = self.turns.oldest() {
            self.published = self.published.split_off(&oldest);
        }
        Ok(())
    }
}

fn remove_weight(weights: &mut BTreeMap<u32, u64>, weight: u32) {
    weights.entry(weight).and_modify(|jobs| *jobs -= 1);
    weights.retain(|_, jobs| *jobs > 0);
}

#[cfg(test)]
mod tests;
