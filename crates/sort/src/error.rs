//! What can keep a sort from its end. The target is then as it was before.

use std::io;
use std::path::PathBuf;

use crate::order::OrderError;

/// Why nothing was sorted.
#[derive(Debug, thiserror::Error)]
pub enum SortError {
    /// Something could not be read.
    #[error("cannot read {what}: {why}")]
    Read {
        /// What.
        what: String,
        /// Why.
        why: io::Error,
    },
    /// Something could not be written.
    #[error("cannot write {what}: {why}")]
    Write {
        /// What.
        what: String,
        /// Why.
        why: io::Error,
    },
    /// No temporary file could be made.
    #[error("cannot make a temporary file in {}: {why}; --tmp names another folder", folder.display())]
    Temporary {
        /// Where.
        folder: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The input ends within a record.
    #[error("{what} ends within a record: its last {left} bytes are less than a record of {size}")]
    Truncated {
        /// What was read.
        what: String,
        /// How many bytes are left.
        left: u64,
        /// How many a record has.
        size: usize,
    },
    /// A record is larger than the memory allows.
    #[error(
        "a record of {what} has {length} bytes or more, and {most} are what one may have with the memory that is given: give more"
    )]
    TooLong {
        /// What was read.
        what: String,
        /// How many bytes it has, as far as was seen.
        length: u64,
        /// How many bytes one may have.
        most: u64,
    },
    /// The memory is too little for anything.
    #[error("{given} bytes of memory are too few: {needed} are needed here")]
    Memory {
        /// How many bytes were given.
        given: u64,
        /// How many are needed.
        needed: u64,
    },
    /// The keys are no order of such records.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// What was written is not what was read, in order.
    #[error("verification failed: {0}; the target is left as it was")]
    Wrong(String),
    /// What is asked for is not to be had.
    #[error("{0}")]
    Unsupported(String),
    /// Somebody has cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// A pipeline could not be run.
    #[error("{0}")]
    Pipeline(String),
}
