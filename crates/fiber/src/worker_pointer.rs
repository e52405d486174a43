//! Names a worker.

use std::ptr::NonNull;

/// A worker, for those who only pass it on or compare it.
/// [`Worker::at`](crate::worker::Worker::at) is the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerPointer(pub(crate) NonNull<()>);
