//! The processes of jobs: one executor for each kind of job.

pub(crate) mod command;
pub(crate) mod fibers;
pub(crate) mod pipeline;
pub(crate) mod threads;
