//! The state of the workloads: locks, pipelines, fibers and messages. The engine moves their
//! threads.

pub(crate) mod fibers;
pub(crate) mod lock;
pub(crate) mod messages;
pub(crate) mod pipeline;
