//! The state of a [`Coscheduler`] as plain data, so that several processes can share it.
//!
//! A snapshot may have been written by a process that means harm. So each of its facts is checked
//! before a [`Coscheduler`] relies on it, in a time and memory that its length and the mesh bound.
//! A snapshot that passes need not be the result of any history, but no call panics after it, and
//! jobs that take turns never share cells in a turn.
//!
//! Only jobs that take turns by a table, keep their cells and never wait for any can be restored:
//! with [`Movement::Never`] and without [`most_slices`](Rules::most_slices).

use std::collections::BTreeSet;

use super::{Coscheduler, Job, JobFacts, Rules};
use crate::layout::{Mesh, Occupancy, Rectangle};
use crate::slices::{Movement, PlacedJob, RestoreError, Slice};
use crate::turn::{LONGEST_ROUND, PublishedTable, Rotation, WaitingSince};
use crate::units::JobId;

/// The state of a [`Coscheduler`], without its mesh and rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// The jobs, in the order in which they were placed.
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
    /// What is known of it.
    pub facts: JobFacts,
}

impl Coscheduler {
    /// The present state. It can be [restored](Self::restore) with the same mesh and rules, if the
    /// rules allow that. Jobs that wait for cells are not in it.
    pub fn snapshot(&self) -> Snapshot {
        let job = |&(job, cells): &_| Some(JobSnapshot { job, cells, facts: self.facts(job)? });
        let slices = |version: u64| self.published.get(&version).cloned().unwrap_or_default();
        let tables = self.turns.known().iter().cloned();
        Snapshot {
            jobs: self.table.placed().iter().filter_map(job).collect(),
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
        for &JobSnapshot { job, facts, .. } in &snapshot.jobs {
            of.check_gang(facts.gang).map_err(|error| refuse(&error))?;
            of.jobs.insert(job, Job { facts, alone: None });
            *of.weights.entry(facts.weight).or_default() += 1;
        }
        of.check_round(&of.weights).map_err(|error| refuse(&error))?;
        snapshot.tables.iter().try_for_each(|table| check_slices(mesh, &table.slices))?;
        (of.rotation, of.turns) = Rotation::restore(rules.slice, &snapshot.tables, &snapshot.waiting)?;
        let placed = |&JobSnapshot { job, cells, facts }: &_| PlacedJob {
            job,
            cells,
            weight: facts.weight,
            takes_turns: facts.takes_turns(),
        };
        let jobs: Vec<PlacedJob> = snapshot.jobs.iter().map(placed).collect();
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
