//! What ranks say to each other: the stage between sorting a column and permuting it.
//!
//! With several ranks the columns are dealt to them one by one, round by round: of `P` ranks, rank `p` has in round `t` the column `t P + p`, in files of its own.
//! Half of each pass needs no words: a rank reads, sorts and writes by itself. What a rank has sorted goes to all columns, though, and so to all ranks: in
//! each round everybody sends everybody an equal part, the pieces for the columns that the other one has. That is one *all-to-all* a round. In the last pass a
//! rank needs the lower half of the column before, which the rank before has, and sends the lower half of its own to the next.

use std::io;

/// How the ranks of a sort exchange what they have.
pub trait Exchange: Send {
    /// How many ranks there are, at least one.
    fn ranks(&self) -> usize;

    /// Which of them this is, from 0 on.
    fn rank(&self) -> usize;

    /// All to all, in place: the column is cut into as many equal parts as there are ranks; part `q` is what this rank has for rank `q`, and becomes
    /// what rank `q` has for this one. Waits for the others, who call it in the same round.
    ///
    /// # Errors
    /// Where the others cannot be reached.
    fn exchange(&mut self, round: u64, column: &mut [u8]) -> io::Result<()>;
}

/// One rank by itself: what it has is for itself, and stays where it is.
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
