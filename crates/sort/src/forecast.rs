//! In which order a merge will need the blocks of its runs, known before it begins.
//!
//! A block is needed when the last record of the one before it in its run has been merged. Merging puts records in order, so blocks are needed in
//! the order of those last records; equal ones in the order of their runs.
//!
//! Source: Knuth (1973), The Art of Computer Programming, volume 3, section 5.4.6, "forecasting". Deviation: what is kept of the last records is cut off
//! after [`KEPT`] bytes, so of blocks whose last records agree so far a wrong one may be said to come first. The merge then reads the right one by itself.

use crate::order::Order;

/// So much is kept of a block's last record.
const KEPT: usize = 256;

/// A part of a run that is read at once: some whole records.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Where in the temporary file.
    pub(crate) place: u64,
    /// How many bytes; in the file it takes a multiple of the [alignment](crate::file::ALIGNMENT).
    pub(crate) length: usize,
    /// The beginning of what its last record is compared by.
    last: Box<[u8]>,
}

/// Sorted records in a temporary file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) blocks: Vec<Block>,
}

impl Block {
    /// So many bytes at this place, of which this record, without a line feed, is the last.
    pub(crate) fn new(place: u64, length: usize, last: &[u8], order: &Order) -> Block {
        let mut kept = Vec::new();
        order.append_normal_form(last, KEPT, &mut kept);
        Block { place, length, last: kept.into() }
    }
}

impl Run {
    /// How many bytes its largest block has.
    pub(crate) fn largest_block(&self) -> usize {
        self.blocks.iter().map(|block| block.length).max().unwrap_or(0)
    }
}

/// All blocks of these runs in the order in which they will be needed, each as the number of its run and its own in that.
pub(crate) fn forecast(runs: &[Run]) -> Vec<(usize, usize)> {
    let mut blocks: Vec<(Option<&[u8]>, usize, usize)> = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        // The first ones are needed first of all, which nothing stands for.
        let last = std::iter::once(None).chain(run.blocks.iter().map(|block| Some(&*block.last)));
        blocks.extend(last.zip(0..run.blocks.len()).map(|(last, block)| (last, number, block)));
    }
    blocks.sort_unstable();
    blocks.into_iter().map(|(_, run, block)| (run, block)).collect()
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
        assert_eq!(forecast(&runs), [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
    }
}
