//! Predicts the order in which a merge will need the blocks of its runs.
//!
//! A block is needed when the last record of the previous block of its run has been merged. Merging
//! takes records in order, so blocks are needed in the order of those last records; equal ones in
//! the order of their runs. So one queue serves all runs, and a run needs one block in memory
//! instead of two.
//!
//! Source: Knuth (1973), The Art of Computer Programming, volume 3, section 5.4.6, "forecasting".
//! Deviation: only the first [`KEPT`] bytes of the last records are kept. If last records agree
//! that far, the prediction may be wrong. The merge then reads the right block directly.

use std::collections::TryReserveError;

use crate::order::Order;

/// The number of bytes kept of a block's last record.
const KEPT: usize = 256;

/// A part of a run that is read at once: some whole records.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The position in the temporary file.
    pub(crate) place: u64,
    /// The length in bytes; in the file it is rounded up to the
    /// [alignment](crate::file::ALIGNMENT).
    pub(crate) length: usize,
    /// The beginning of the normal form of the last record.
    last: Box<[u8]>,
}

/// Sorted records in a temporary file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) blocks: Vec<Block>,
}

impl Block {
    /// Creates a block. `last` is its last record without the line feed.
    pub(crate) fn new(place: u64, length: usize, last: &[u8], order: &Order) -> Block {
        let mut kept = Vec::new();
        order.append_normal_form(last, KEPT, &mut kept);
        Block { place, length, last: kept.into() }
    }
}

impl Run {
    /// Appends a block.
    ///
    /// # Errors
    /// Returns an error if there is no memory.
    pub(crate) fn push(&mut self, block: Block) -> Result<(), TryReserveError> {
        self.blocks.try_reserve(1)?;
        self.blocks.push(block);
        Ok(())
    }

    /// The size of the largest block in bytes.
    pub(crate) fn largest_block(&self) -> usize {
        self.blocks.iter().map(|block| block.length).max().unwrap_or(0)
    }
}

/// All blocks of these runs in the order in which they will be needed, each as the index of its run
/// and its number in that run.
///
/// # Errors
/// Returns an error if there is no memory.
pub(crate) fn forecast(runs: &[Run]) -> Result<Vec<(usize, usize)>, TryReserveError> {
    let count = runs.iter().map(|run| run.blocks.len()).sum();
    let mut blocks: Vec<(Option<&[u8]>, usize, usize)> = Vec::new();
    let mut order = Vec::new();
    blocks.try_reserve_exact(count)?;
    order.try_reserve_exact(count)?;
    for (number, run) in runs.iter().enumerate() {
        // The first block of each run is needed first; `None` sorts before all keys.
        let last = std::iter::once(None).chain(run.blocks.iter().map(|block| Some(&*block.last)));
        blocks.extend(last.zip(0..run.blocks.len()).map(|(last, block)| (last, number, block)));
    }
    blocks.sort_unstable();
    order.extend(blocks.into_iter().map(|(_, run, block)| (run, block)));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Format;

    #[test]
    fn blocks_are_needed_in_the_order_of_the_records_before_them() {
        let order = Order::new(Format::Lines, Vec::new()).unwrap();
        let run = |lasts: &[&str]| Run {
            blocks: lasts.iter().map(|last| Block::new(0, last.len(), last.as_bytes(), &order)).collect(),
        };
        let runs = [run(&["d", "k", "k"]), run(&["b", "k", "z"]), run(&[])];
        assert_eq!(forecast(&runs).unwrap(), [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
    }
}
