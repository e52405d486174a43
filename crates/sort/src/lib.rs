//! Sorts what is larger than memory.
//!
//! Records of one size, or lines, are read from a file or a pipe, sorted within a budget of memory, and written to a file or a pipe. A
//! [`Sort`] says by what [`Order`] and how; an [`Input`] and an [`Output`] are where from and where to.
//!
//! Both algorithms are pipelines on the crate `rowlock-pipeline`, whose stages can be scheduled:
//!
//! * **merge**: runs of what fits into memory are formed and spilled, then merged all at once, so that data is read and written twice in
//!   all. What fits into memory is never spilled.
//! * **columnsort**: three passes over a matrix whose every step is known before the first record is read.

#![forbid(unsafe_code)]

mod algorithm;
mod available;
mod block_writer;
pub mod budget;
pub mod chunk;
pub mod columnsort;
mod decimal;
pub mod entries;
mod error;
pub mod file;
mod forecast;
mod job;
pub mod key;
mod merge;
mod normal_form;
mod number;
pub mod order;
mod progress;
mod record_counts;
mod runs;
mod sort;
mod split;
mod temporary_file;
mod tournament;
mod verify;

pub use algorithm::{Algorithm, Variant};
pub use available::available_memory;
pub use error::SortError;
pub use file::input::Input;
pub use file::output::Output;
pub use key::{Endian, Key, KeyError, KeyKind};
pub use order::{Format, Order, OrderError};
pub use sort::{Outcome, Sort};
