//! The errors of a sort. After an error the target is unchanged.

use std::collections::TryReserveError;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use crate::order::OrderError;

/// The reason why a sort failed.
#[derive(Debug, thiserror::Error)]
pub enum SortError {
    /// A read failed.
    #[error("cannot read {what}: {why}")]
    Read {
        /// The name of the file or stream.
        what: String,
        /// The reason.
        why: io::Error,
    },
    /// A write failed.
    #[error("cannot write {what}: {why}")]
    Write {
        /// The name of the file or stream.
        what: String,
        /// The reason.
        why: io::Error,
    },
    /// A temporary file could not be created.
    #[error("cannot make a temporary file in {}: {why}; --tmp names another folder", folder.display())]
    Temporary {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The input ends within a record.
    #[error("{what} ends within a record: its last {left} bytes are less than a record of {size}")]
    Truncated {
        /// The name of the input.
        what: String,
        /// The number of bytes left over.
        left: u64,
        /// The size of a record.
        size: usize,
    },
    /// A record is too large for the memory budget.
    #[error(
        "a record of {what} has {length} bytes or more, but with this much memory it may have at most {most}: give more"
    )]
    TooLong {
        /// The name of the input.
        what: String,
        /// The length of the record as far as it was read.
        length: u64,
        /// The maximum length.
        most: u64,
    },
    /// The memory budget is too small.
    #[error("{given} bytes of memory are too few: {needed} are needed here; give more with --memory")]
    Memory {
        /// The budget in bytes.
        given: u64,
        /// The minimum in bytes.
        needed: u64,
    },
    /// Limits leave too little of the memory budget.
    #[error(
        "the limits of this process and its control groups leave {} MiB of memory for the sort, and {} MiB are needed here; raise \
         the lowest of them",
        left >> 20,
        needed.div_ceil(1 << 20)
    )]
    Reduced {
        /// The part of the budget that they leave, in bytes.
        left: u64,
        /// The minimum in bytes.
        needed: u64,
    },
    /// The limits of the process leave too little memory.
    #[error(
        "the limits of this process leave {left} bytes of memory, and {needed} are needed here; see `ulimit -v` and `ulimit -d`"
    )]
    Limit {
        /// The memory that they leave for data, in bytes.
        left: u64,
        /// The minimum in bytes.
        needed: u64,
    },
    /// The system refused memory that the limits of the process allow.
    #[error("cannot allocate memory: {0}; give less with --memory, or end other programs")]
    Allocation(String),
    /// The keys do not define an order of such records.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// Verification found a difference between output and input.
    #[error("verification failed: {0}; the target is left as it was")]
    Wrong(String),
    /// The request is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// Another rank of the sort has ended.
    #[error("cannot sort together with the other ranks: {0}")]
    Message(#[from] message::Error),
    /// The sort was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// A pipeline could not be run.
    #[error("{0}")]
    Pipeline(String),
}

impl From<TryReserveError> for SortError {
    fn from(why: TryReserveError) -> SortError {
        SortError::Allocation(why.to_string())
    }
}

impl SortError {
    /// Turns an error about the memory of one of so many ranks, which share this budget, into one
    /// about that of all. If limits have made the budget smaller, it is about these.
    pub(crate) fn of_ranks(self, ranks: u64, budget: u64) -> SortError {
        let SortError::Memory { given, needed } = self else { return self };
        let (all, needed) = (given.saturating_mul(ranks), needed.saturating_mul(ranks));
        match given < budget / ranks {
            true => SortError::Reduced { left: all, needed },
            false => SortError::Memory { given: all, needed },
        }
    }

    /// Turns an error of a read into one that names the file or stream.
    pub(crate) fn read(what: impl Display) -> impl FnOnce(io::Error) -> SortError {
        move |why| SortError::Read { what: what.to_string(), why }
    }

    /// Turns an error of a write into one that names the file or stream.
    pub(crate) fn write(what: impl Display) -> impl FnOnce(io::Error) -> SortError {
        move |why| SortError::Write { what: what.to_string(), why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_about_memory_names_the_budget_or_the_limits_that_have_made_it_smaller() {
        let error = |given| SortError::Memory { given, needed: 7 << 20 }.of_ranks(8, 40_000_003).to_string();
        assert_eq!(
            error(5_000_000),
            "40000000 bytes of memory are too few: 58720256 are needed here; give more with --memory"
        );
        assert_eq!(
            error(2_649_600),
            "the limits of this process and its control groups leave 20 MiB of memory for the sort, and 56 MiB are needed here; \
             raise the lowest of them"
        );
    }
}
