//! The state of a [`Coscheduler`] as plain data, so that several processes can share it.
//!
//! A snapshot may have been written by a process that means harm. So each of its facts is checked
//! before a [`Coscheduler`] relies on it, in a time and memory that its length and the mesh bound.
//! A snapshot that passes need not be the result of any history, but no call panics after it, and
//! jobs that take turns never share cells in a turn, unless they cooperate or idle.
//!
//! Only jobs that take turns by a table, keep their cells and never wait for any can be restored:
//! with [`Movement::Never`] and without [`most_slices`](Rules::most_slices).

use std::collections::BTreeSet;

use super::{Coscheduler, Job, JobFacts, Rules};
use crate::layout::{Mesh, Occupancy, Rectangle};
use crate::slices::{Movement, PlacedTask, RestoreError, Slice};
use crate::turn::{LONGEST_ROUND, PublishedTable, Rotation, WaitingSince};
use crate::units::JobId;

/// The state of a [`Coscheduler`], without its mesh and rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// The jobs, in the order in which they were placed, those of a task together.
    pub jobs: Vec<JobSnapshot>,
    /// The tables of turns that are known, the last one with the present slices.
    pub tables: Vec<PublishedTable>,
    /// How long the jobs of the present slices have waited.
    pub waiting: Vec<WaitingSince>,
    /// The largest number of slices so far.
    pub most_slices: u64,
}

/// A job that has cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobSnapshot {
    /// The job.
    pub job: JobId,
    /// Its cells.
    pub cells: Rectangle,
    /// The facts about it.
    pub facts: JobFacts,
    /// The task of the jobs with which it cooperates, if it does or did so.
    pub task: Option<JobId>,
}

impl Coscheduler {
    /// The present state. It can be [restored](Self::restore) with the same mesh and rules, if the
    /// rules allow that. Jobs that wait for cells are not in it.
    pub fn snapshot(&self) -> Snapshot {
        let job = |whole: Rectangle, (job, &Job { facts, member, .. }): (JobId, &Job)| {
            let (task, cells) = member.map_or((None, whole), |(task, cells)| (Some(task), cells));
            JobSnapshot { job, cells, facts, task }
        };
        let slices = |version: u64| self.published.get(&version).cloned().unwrap_or_default();
        let tables = self.turns.known().iter().cloned();
        Snapshot {
            jobs: self
                .table
                .placed()
                .iter()
                .flat_map(|&(task, whole)| self.members(task).map(move |of| job(whole, of)))
                .collect(),
            tables: tables.map(|turns| PublishedTable { slices: slices(turns.version), turns }).collect(),
            waiting: self.rotation.waiting().collect(),
            most_slices: self.most_slices as u64,
        }
    }

    /// The state that a snapshot describes. It behaves as the one that the snapshot was taken of.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] if a fact is impossible on this mesh and with these rules, or if they allow
    /// jobs to wait for cells or to move.
    pub fn restore(mesh: Mesh, rules: Rules, snapshot: Snapshot) -> Result<Coscheduler, RestoreError> {
        let Rules { gang, movement, most_slices, .. } = rules;
        if !gang.has_table() || movement != Movement::Never || most_slices.is_some() {
            return Err(RestoreError("jobs that wait for cells, move or have no table cannot be restored".into()));
        }
        let refuse = |error: &dyn std::error::Error| RestoreError(error.to_string());
        let mut of = Coscheduler::new(mesh, rules);
        for &JobSnapshot { job, cells, facts, task } in &snapshot.jobs {
            of.check_gang(facts.gang).map_err(|error| refuse(&error))?;
            if !mesh.has(cells) {
                return Err(RestoreError(format!("job {job} has cells that are not on a mesh of {mesh}")));
            }
            if facts.weight == 0 {
                return Err(RestoreError(format!("job {job} has a weight of zero")));
            }
            if of.jobs.insert(job, Job { facts, alone: None, member: task.map(|task| (task, cells)) }).is_some() {
                return Err(RestoreError(format!("there are two jobs {job}")));
            }
            *of.weights.entry(facts.weight).or_default() += 1;
        }
        of.check_round(&of.weights).map_err(|error| refuse(&error))?;
        snapshot.tables.iter().try_for_each(|table| check_slices(mesh, &table.slices))?;
        (of.rotation, of.turns) = Rotation::restore(rules.slice, &snapshot.tables, &snapshot.waiting)?;
        let jobs = tasks(&snapshot.jobs);
        let slices = snapshot.tables.last().map_or(&[][..], |table| &table.slices);
        of.table = of.table.restore(&jobs, slices)?;
        if !(slices.len() as u64..=LONGEST_ROUND).contains(&snapshot.most_slices) {
            return Err(RestoreError(format!("there were never more than {} slices", snapshot.most_slices)));
        }
        of.most_slices = snapshot.most_slices as usize;
        of.published = snapshot.tables.into_iter().map(|table| (table.turns.version, table.slices)).collect();
        Ok(of)
    }
}

/// The tasks of jobs, in the order in which they were placed.
fn tasks(jobs: &[JobSnapshot]) -> Vec<PlacedTask> {
    let same_task = |one: &JobSnapshot, other: &JobSnapshot| one.task.is_some() && one.task == other.task;
    let of = |members: &[JobSnapshot]| {
        let first = members.first()?;
        Some(PlacedTask {
            task: first.task.unwrap_or(first.job),
            cells: members.iter().map(|of| of.cells).reduce(Rectangle::enclosing)?,
            weight: members.iter().map(|of| of.facts.weight).max()?,
            takes_turns: members.iter().any(|of| of.facts.takes_turns()),
        })
    };
    jobs.chunk_by(same_task).filter_map(of).collect()
}

/// Checks that the jobs of each slice have cells that do not overlap.
fn check_slices(mesh: Mesh, slices: &[Slice]) -> Result<(), RestoreError> {
    let mut occupancy = Occupancy::new(mesh);
    for slice in slices {
        let mut jobs = BTreeSet::new();
        for &(job, cells) in &slice.jobs {
            if !jobs.insert(job) || !occupancy.take(cells) {
                return Err(RestoreError(format!("job {job} has no cells of its own in a slice")));
            }
        }
        slice.jobs.iter().for_each(|&(_, cells)| occupancy.release(cells));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
