//! A table of slices from facts that another process may have written.

use super::{Job, Slice, SliceTable};
use crate::layout::Rectangle;
use crate::units::JobId;

/// The reason why a state cannot be restored: the fact that is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RestoreError(pub(crate) String);

/// A job that has cells, or a task of several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedTask {
    pub(crate) task: JobId,
    pub(crate) cells: Rectangle,
    pub(crate) weight: u32,
    pub(crate) takes_turns: bool,
}

impl SliceTable {
    /// The jobs that have cells, in the order in which they were placed.
    pub(crate) fn placed(&self) -> &[(JobId, Rectangle)] {
        &self.placed
    }

    /// This table, which is empty, with these jobs, whose cells are on the mesh, in the order in
    /// which they were placed, and slices. No job waits or moves.
    ///
    /// The slices need not be the result of a history: a job may be missing in one that has room.
    ///
    /// # Errors
    ///
    /// [`RestoreError`] if the table could not take turns with them.
    pub(crate) fn restore(mut self, jobs: &[PlacedTask], slices: &[Slice]) -> Result<SliceTable, RestoreError> {
        for &PlacedTask { task: job, cells: rectangle, weight, takes_turns } in jobs {
            if self.jobs.insert(job, Job { rectangle, weight, takes_turns, slices: Vec::new() }).is_some() {
                return Err(RestoreError(format!("there are two jobs {job}")));
            }
            self.placed.push((job, rectangle));
        }
        // Each slice has a job of its own. This bounds the memory.
        if slices.len() > jobs.len() {
            return Err(RestoreError(format!("{} jobs have {} slices", jobs.len(), slices.len())));
        }
        for slice in slices {
            let number = self.add_slice();
            self.cells[number].new_room.clear();
            for &(job, rectangle) in &slice.jobs {
                if self.rectangle(job) == Ok(rectangle) {
                    self.enter_if_free(job, rectangle, number);
                }
            }
        }
        self.weigh();
        if let Some(number) = self.slices.iter().zip(slices).position(|(own, given)| own != given) {
            return Err(RestoreError(format!("slice {number} cannot have its jobs, or not its weight")));
        }
        if let Some(number) = self.cells.iter().position(|cells| cells.single_weights.is_empty()) {
            return Err(RestoreError(format!("slice {number} has no single task")));
        }
        match self.jobs.iter().find(|(_, placed)| placed.takes_turns && placed.slices.is_empty()) {
            Some((job, _)) => Err(RestoreError(format!("job {job} takes turns and is in no slice"))),
            None => Ok(self),
        }
    }
}
