//! The state of a publisher from facts that another process may have written.

use std::collections::{BTreeMap, BTreeSet};

use super::{Rotation, reduced_weights};
use crate::slices::{RestoreError, Slice};
use crate::turn::{TurnTable, Turns};
use crate::units::{Instant, JobId, Span};

/// A table of turns with its slices.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PublishedTable {
    /// The turns.
    pub turns: TurnTable,
    /// The slices, by their numbers.
    pub slices: Vec<Slice>,
}

/// How long a job has waited for its turn at the reference time of the last table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaitingSince {
    /// The job.
    pub job: JobId,
    /// When it began to wait.
    pub since: Instant,
    /// Whether it was active until then. Else it was entered then.
    pub was_active: bool,
}

/// The largest version and time that are accepted, so that later ones can be counted.
const LARGEST: u64 = u64::MAX / 2;

impl Rotation {
    /// How long each job of the last table has waited.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = WaitingSince> {
        self.waiting.iter().map(|(&job, &(since, was_active))| WaitingSince { job, since, was_active })
    }

    /// A publisher whose slices are active for so long and that has published these tables, of
    /// which the last one comes last, and a cell that knows them.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] if it could not have published them.
    pub(crate) fn restore(
        slice: Span,
        tables: &[PublishedTable],
        waiting: &[WaitingSince],
    ) -> Result<(Rotation, Turns), RestoreError> {
        let (mut rotation, mut cell) = (Rotation::new(slice), Turns::new());
        for PublishedTable { turns, slices } in tables {
            let is_later = cell.known().last().is_none_or(|last| last.reference < turns.reference);
            let is_in_range = turns.version <= LARGEST && turns.reference.as_nanos() <= LARGEST;
            if turns.version == 0 || !is_in_range || !is_later || !cell.publish(turns.clone()) {
                return Err(RestoreError(format!("table {} does not follow the one before", turns.version)));
            }
            if turns.slice != slice {
                return Err(RestoreError(format!(
                    "table {} has slices of {}, not {slice}",
                    turns.version, turns.slice
                )));
            }
            check_order(turns, slices)?;
        }
        if let Some(PublishedTable { turns, slices }) = tables.last() {
            rotation.table = turns.clone();
            rotation.slices = slices.iter().map(|slice| slice.jobs.iter().map(|&(job, _)| job).collect()).collect();
        }
        rotation.waiting = waiting.iter().map(|of| (of.job, (of.since, of.was_active))).collect();
        let jobs: BTreeSet<JobId> = rotation.slices.iter().flatten().copied().collect();
        if waiting.len() != jobs.len() || !jobs.iter().eq(rotation.waiting.keys()) {
            return Err(RestoreError("the jobs that wait for turns are not those of the slices".into()));
        }
        match waiting.iter().find(|of| of.since > rotation.table.reference) {
            Some(of) => Err(RestoreError(format!("job {} waits only from {} on", of.job, of.since))),
            None => Ok((rotation, cell)),
        }
    }
}

/// Checks that each slice has as many turns of a round as its weight says.
fn check_order(turns: &TurnTable, slices: &[Slice]) -> Result<(), RestoreError> {
    let weights = reduced_weights(slices).map_err(|error| RestoreError(error.to_string()))?;
    let mut left: BTreeMap<u32, u64> = (0..).zip(weights).collect();
    let has_turn = |slice: &u32| left.get_mut(slice).filter(|left| **left > 0).map(|left| *left -= 1).is_some();
    if turns.order.iter().all(has_turn) && left.values().all(|&left| left == 0) {
        return Ok(());
    }
    Err(RestoreError(format!("the turns of table {} are not those of its slices", turns.version)))
}
