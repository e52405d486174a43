//! Traces of a run as files for [Perfetto](https://ui.perfetto.dev).
//!
//! Both worlds fill the same [`model`]: the threads of a run, and their events. [`Writer`] converts
//! events to bytes as they come and keeps none of them. [`mod@file`] gives a trace its name when it
//! is complete.
//!
//! See docs/traces.md for how to read a trace.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
#![forbid(unsafe_code)]

pub mod file;
pub mod model;
pub mod protobuf;
mod writer;

pub use writer::Writer;
