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
//! * `adaptive`: the class of each job is [observed](Coscheduler::observe) as long as it runs. A
//!   job that does not wait by spinning leaves the slices but keeps its cells.

use std::collections::{BTreeMap, VecDeque};

use crate::gang::{Action, Class, Gang, IntervalCounters, classify};
use crate::layout::{Mesh, Occupancy, Partitioner, Rectangle, Request};
use crate::slices::{Entry, Movement, Slice, SliceError, SliceTable};
use crate::turn::{self, LONGEST_ROUND, Rotation, TurnError, TurnTable, Turns};
use crate::units::{Instant, JobId, Span};

/// The rules by which jobs share a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// What happens to jobs that are not active.
    pub gang: Gang,
    /// How a job finds its cells.
    pub partitioner: Partitioner,
    /// Whether a job may have other cells in another slice.
    pub movement: Movement,
    /// The most slices, where zero counts as one; `None` if there is no limit. Jobs that would need
    /// more wait in order of arrival, except those that were placed already.
    pub most_slices: Option<u32>,
    /// How long a slice is active; zero counts as one nanosecond.
    pub slice: Span,
    /// How far the clock of a cell may be behind the times at which jobs are entered, released and
    /// observed. A clock that lags further may find no slice, or a later one.
    pub lag: Span,
}

/// The decisions for all jobs of a machine.
#[derive(Clone, Debug)]
pub struct Coscheduler {
    gang: Gang,
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
    weight: u32,
    class: Class,
    /// Its cells without slices: `None` if the table of slices has them.
    alone: Option<Rectangle>,
}

/// The reason why a job cannot be entered, released or observed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoschedulingError {
    /// The table of slices refuses it.
    #[error(transparent)]
    Slices(#[from] SliceError),
    /// The weights allow no table of turns.
    #[error(transparent)]
    Turns(#[from] TurnError),
}

impl Coscheduler {
    /// No jobs on a mesh.
    pub fn new(mesh: Mesh, rules: Rules) -> Coscheduler {
        Coscheduler {
            gang: rules.gang,
            lag: rules.lag,
            table: SliceTable::new(mesh, rules.partitioner, rules.movement, rules.most_slices),
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
    /// [`SliceError::TooLarge`], [`SliceError::Twice`], and, if jobs take turns,
    /// [`TurnError::TooLong`]: a round would be too long if each job had a slice of its own. So no
    /// later change makes it too long. Nothing has changed then.
    pub fn enter(
        &mut self,
        job: JobId,
        request: Request,
        weight: u32,
        now: Instant,
    ) -> Result<Entry, CoschedulingError> {
        if self.jobs.contains_key(&job) {
            return Err(SliceError::Twice(job).into());
        }
        let weight = weight.max(1);
        self.check_round(weight)?;
        let (entry, alone) = match self.gang {
            Gang::CellOs | Gang::Original => {
                let place = self.first_place(request)?;
                let waits = self.gang == Gang::CellOs && !self.queue.is_empty();
                self.queue.push_back(job);
                (if waits { Entry::Waits } else { Entry::Placed(place) }, Some(place))
            }
            _ => (self.table.enter(job, request, weight)?, None),
        };
        self.jobs.insert(job, Job { weight, class: Class::Unknown, alone });
        *self.weights.entry(weight).or_default() += 1;
        self.publish(now)?;
        Ok(entry)
    }

    /// Releases the cells of a job, or its place among those that wait. Returns the jobs that had
    /// to wait and have been placed.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`].
    pub fn release(&mut self, job: JobId, now: Instant) -> Result<Vec<(JobId, Rectangle)>, CoschedulingError> {
        let released = self.jobs.remove(&job).ok_or(SliceError::Unknown(job))?;
        self.weights.entry(released.weight).and_modify(|jobs| *jobs -= 1);
        self.weights.retain(|_, jobs| *jobs > 0);
        let placed = match released.alone {
            Some(_) => {
                let had_the_machine = self.queue.front() == Some(&job);
                self.queue.retain(|&queued| queued != job);
                self.followed = self.followed.filter(|&followed| followed != job);
                let next = self.queue.front().filter(|_| self.gang == Gang::CellOs && had_the_machine);
                next.and_then(|&next| Some((next, self.jobs.get(&next)?.alone?))).into_iter().collect()
            }
            None => self.table.release(job)?,
        };
        self.publish(now)?;
        Ok(placed)
    }

    /// Classifies a placed job by its counters since it was last observed. Returns the jobs that
    /// had to wait and have been placed.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`], [`SliceError::Waiting`]. Nothing has changed then.
    pub fn observe(
        &mut self,
        job: JobId,
        counters: &IntervalCounters,
        now: Instant,
    ) -> Result<Vec<(JobId, Rectangle)>, CoschedulingError> {
        let of = self.jobs.get_mut(&job).ok_or(SliceError::Unknown(job))?;
        if of.alone.is_none() {
            self.table.rectangle(job)?;
        }
        let took_turns = self.gang.takes_turns(of.class);
        of.class = classify(of.class, counters);
        let takes_turns = self.gang.takes_turns(of.class);
        if !self.gang.has_table() || took_turns == takes_turns {
            return Ok(Vec::new());
        }
        let placed = self.table.set_takes_turns(job, takes_turns)?;
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
        let Some(of) = self.jobs.get(&job) else { return Action::Run };
        match self.gang {
            Gang::Original => self.gang.action(self.followed.is_none_or(|followed| followed == job)),
            gang if gang.has_table() && gang.takes_turns(of.class) => {
                gang.action(self.active(now).is_some_and(|slice| slice.jobs.iter().any(|(active, _)| *active == job)))
            }
            _ => Action::Run,
        }
    }

    /// The cells of a job in the slice that is active at `now`, or those that it would have.
    pub fn cells(&self, job: JobId, now: Instant) -> Option<Rectangle> {
        let alone = self.jobs.get(&job)?.alone;
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

    /// The slices in force at `now`, in the order in which they were made.
    pub fn slices(&self, now: Instant) -> &[Slice] {
        let published = self.turns.in_force(now).and_then(|table| self.published.get(&table.version));
        published.map_or(&[], Vec::as_slice)
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
        let request_shape = request.shapes(mesh).next().unwrap_or(mesh.shape());
        let found = Partitioner::FirstFit.find(&Occupancy::new(mesh), request);
        found.ok_or(SliceError::TooLarge { request: request_shape, mesh: mesh.shape() })
    }

    /// Refuses one more job of this weight if a round could be too long. Each slice has the weight
    /// of one of its single tasks, so there are no more places than if each job had a slice.
    fn check_round(&self, weight: u32) -> Result<(), TurnError> {
        if !self.gang.has_table() {
            return Ok(());
        }
        let jobs: Vec<_> = self.weights.iter().map(|(&weight, &jobs)| (weight, jobs)).chain([(weight, 1)]).collect();
        match turn::round_of_jobs(&jobs) {
            places if places > LONGEST_ROUND => Err(TurnError::TooLong(places)),
            _ => Ok(()),
        }
    }

    /// Publishes the slices, if they take turns and have changed. Never fails, because of
    /// [`check_round`](Self::check_round).
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

#[cfg(test)]
mod tests;
