//! Sorts data that is larger than memory.
//!
//! A sort reads records of a fixed size, or lines, from a file or a pipe, sorts them within a
//! memory budget, and writes them to a file or a pipe. A [`Sort`] holds the [`Order`] and the
//! options; an [`Input`] is the source and an [`Output`] the destination.
//!
//! Both algorithms run as pipelines of the crate `rowlock-pipeline`, whose stages can be scheduled:
//!
//! * **merge**: sorts runs that fit into memory, writes them to temporary files and merges them all
//!   at once, so that data is read and written twice. Input that fits into memory needs no
//!   temporary file.
//! * **columnsort**: makes three passes over a matrix; every step is known before the first record
//!   is read. Several processes can do it together, the ranks of a job (`rowlock-message`).
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
#![forbid(unsafe_code)]

mod algorithm;
pub mod available;
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
mod ranks;
mod record_counts;
mod runs;
mod size;
mod sort;
mod split;
mod temporary_file;
mod tournament;
mod verify;

pub use algorithm::{Algorithm, Variant};
pub use available::fit_into_limits;
pub use error::SortError;
pub use file::input::Input;
pub use file::output::Output;
pub use key::{Endian, Key, KeyError, KeyKind};
pub use order::{Format, Order, OrderError};
pub use size::parse_size;
pub use sort::{Outcome, Sort};
