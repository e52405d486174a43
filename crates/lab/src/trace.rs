//! Traces: everything that happened in one run, as a file for [Perfetto](https://ui.perfetto.dev).
//!
//! Both worlds fill the same [`model`]: who appears, and what happens when. [`simulated`] watches a simulation,
//! [`observed`] puts together what threads of the host took down of themselves; [`Writer`] turns events into bytes as they
//! come and keeps none of them; [`reader`] reads such bytes back, knowing Perfetto's format and nothing of the writer;
//! [`mod@file`] sees to it that no half of a trace is ever left under the name that was asked for.
//!
//! docs/traces.md says what one sees where.

pub mod file;
pub mod model;
pub mod observed;
mod protobuf;
pub mod reader;
pub mod simulated;
mod writer;

pub use writer::Writer;
