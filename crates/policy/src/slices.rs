//! The layout of parallel jobs in time: the table of slices.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes",
//! section 3.2.

use crate::layout::{Mesh, Partitioner, Rectangle, Request};
use crate::units::JobId;

/// Whether a job may have other cells in another slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Movement {
    /// Never: a job has the same cells in all its slices.
    #[default]
    Never,
    /// It may have other cells of the same node.
    WithinNode,
}

crate::parse::named!(
    Movement { Never = "never", WithinNode = "within-node", }
    |text| text, format!("`{text}` does not say whether jobs move")
);

/// One slice: a virtual machine, and the jobs that run on it at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Its jobs with their cells, in the order in which they were entered.
    pub jobs: Vec<(JobId, Rectangle)>,
    /// Its share of the time, relative to that of the other slices: the largest weight of its
    /// single tasks.
    pub weight: u32,
}

/// The table of slices.
#[derive(Clone, Debug)]
pub struct SliceTable {
    mesh: Mesh,
    slices: Vec<Slice>,
}

/// The place of a job that has asked for cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It has these cells.
    Placed(Rectangle),
    /// It waits until other jobs are released.
    Waits,
}

/// The reason why a call is refused. The table is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// No slice can have such a rectangle.
    #[error("{request} cells fit into a mesh of {mesh} in neither orientation")]
    TooLarge {
        /// The requested size.
        request: crate::layout::Shape,
        /// The size of the mesh.
        mesh: crate::layout::Shape,
    },
    /// The job is in the table already.
    #[error("job {0} is in the table already")]
    Twice(JobId),
    /// The job is not in the table, for example because it has been released.
    #[error("job {0} is not in the table")]
    Unknown(JobId),
}

impl SliceTable {
    /// An empty table of at most `most_slices` slices.
    pub fn new(mesh: Mesh, _partitioner: Partitioner, _movement: Movement, _most_slices: Option<u32>) -> SliceTable {
        SliceTable { mesh, slices: Vec::new() }
    }

    /// Enters a job with a weight of at least one.
    ///
    /// # Errors
    ///
    /// [`SliceError::TooLarge`], [`SliceError::Twice`].
    pub fn enter(&mut self, _job: JobId, _request: Request, _weight: u32) -> Result<Entry, SliceError> {
        Ok(Entry::Waits)
    }

    /// Releases the cells of a job, or its place among those that wait. Returns the jobs that had
    /// to wait and have been placed, in the order of their arrival.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`].
    pub fn release(&mut self, job: JobId) -> Result<Vec<(JobId, Rectangle)>, SliceError> {
        Err(SliceError::Unknown(job))
    }

    /// Lets a placed job take turns, or takes it out of all slices. It keeps its cells.
    ///
    /// # Errors
    ///
    /// [`SliceError::Unknown`].
    pub fn set_takes_turns(&mut self, job: JobId, _takes_turns: bool) -> Result<(), SliceError> {
        Err(SliceError::Unknown(job))
    }

    /// The slices, in the order in which they were made.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The mesh.
    pub fn mesh(&self) -> Mesh {
        self.mesh
    }
}
