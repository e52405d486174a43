//! The state of the workloads: locks, pipelines and fibers. The engine moves their threads.

pub(crate) mod fibers;
pub(crate) mod lock;
pub(crate) mod pipeline;
