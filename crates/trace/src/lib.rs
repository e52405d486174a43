//! Events of one run as a file for [Perfetto](https://ui.perfetto.dev).
//!
//! Both worlds fill the same [`model`]: the threads of a run, and what happens when. [`Writer`]
//! turns events into bytes as they come and keeps none of them. [`mod@file`] gives a trace its name
//! only when it is complete.
//!
//! docs/traces.md says how to read a trace.
#![forbid(unsafe_code)]

pub mod file;
pub mod model;
pub mod protobuf;
mod writer;

pub use writer::Writer;
