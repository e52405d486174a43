//! The communication between ranks: the stage between sorting and permuting a column.
//!
//! With several ranks, columns are dealt to ranks round by round: of `P` ranks, rank `p` has column
//! `t P + p` in round `t`, in its own files. Reading, sorting and writing need no communication.
//! But the records of a sorted column go to all columns and therefore to all ranks: in each round
//! every rank sends every other rank an equal part, the pieces for that rank's columns. That is one
//! *all-to-all* exchange a round. In the last pass a rank receives the lower half of the previous
//! column from the previous rank, and sends the lower half of its own to the next rank.

use std::io;

/// Exchanges records between the ranks of a sort.
pub trait Exchange: Send {
    /// The number of ranks, at least one.
    fn ranks(&self) -> usize;

    /// The index of this rank, from 0 on.
    fn rank(&self) -> usize;

    /// Performs an all-to-all exchange in place. The column is divided into as many equal parts as
    /// there are ranks. Part `q` holds data for rank `q`, and is replaced with the data from rank
    /// `q`. Blocks until the other ranks call it in the same round.
    ///
    /// # Errors
    /// Returns an error if other ranks cannot be reached.
    fn exchange(&mut self, round: u64, column: &mut [u8]) -> io::Result<()>;
}

/// A single rank, which keeps its data in place.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleRank;

impl Exchange for SingleRank {
    fn ranks(&self) -> usize {
        1
    }

    fn rank(&self) -> usize {
        0
    }

    fn exchange(&mut self, _round: u64, _column: &mut [u8]) -> io::Result<()> {
        Ok(())
    }
}
