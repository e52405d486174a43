//! The sorting algorithms, and the result that each of them returns.

use pipeline::RunReport;

use crate::error::SortError;
use crate::ranks::Ranks;

/// A sorting algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Merge sort: sorts runs that fit into memory and merges them all at once.
    #[default]
    Merge,
    /// Columnsort in three passes, for records of a fixed size.
    Columnsort(Variant),
}

/// A variant of columnsort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// Computes as fast as possible, so that the disk is the limit.
    #[default]
    IoBound,
    /// Compares and moves whole records, so that the processors are the limit.
    ComputeBound,
}

/// The size of the output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Written {
    /// That of all ranks. Waits until all have written their parts.
    pub(crate) fn of_all(self, ranks: Ranks<'_>) -> Result<Written, SortError> {
        let mut sums = [self.records, self.bytes];
        ranks.combine(&mut sums, u64::wrapping_add)?;
        let [records, bytes] = sums;
        Ok(Written { records, bytes })
    }
}

/// The result of an algorithm: everything is in the output but has not been verified.
#[derive(Default)]
pub(crate) struct Sorted {
    pub(crate) written: Written,
    /// See [`Outcome::runs`](crate::Outcome::runs).
    pub(crate) runs: u64,
    /// See [`Outcome::passes`](crate::Outcome::passes).
    pub(crate) passes: u32,
    pub(crate) reports: Vec<RunReport>,
}
