//! How a budget of memory is divided up. Everything that grows with the budget is counted: buffers, entries, what is remembered of lines.
//!
//! Forming runs: three loads of records, one being filled, one sorted, one written, or one that everything fits into, with 16 bytes beside each record, and 4 more beside each
//! line; and pieces of the input and the output. Merging: a block of each run, and the rest for blocks read ahead, but for some to be written.

use crate::error::SortError;
use crate::file::ALIGNMENT;
use crate::order::Format;

/// The least that can be sorted with.
pub const LEAST: u64 = 256 << 10;

/// What is kept beside a record as it is sorted.
const ENTRY: usize = size_of::<u128>();

/// What is kept beside a line as well: where it begins.
const LINE: usize = size_of::<u32>();

/// A number of 32 bits says which record it is, and where a line begins.
const MOST: usize = u32::MAX as usize - 1;

/// How many loads there are, unless all fits into one.
const LOADS: usize = 3;

/// Where lines are not shorter than this on average, so many bytes of them are kept in the memory that is kept free for them and what is beside them.
const SHORT_LINE: usize = 10;

/// How many pieces are being read, and how many written.
pub(crate) const PIECES: usize = 6;

/// What is read, or written, at once is not larger than this.
const LARGEST_PIECE: usize = 1 << 20;

/// Blocks are not larger than this, but for single records that are.
const LARGEST_BLOCK: usize = 2 << 20;

/// How many times the memory what comes from a pipe is taken to be.
const UNKNOWN: u64 = 64;

/// A budget of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Of which this module speaks: without what the process takes anyhow.
    bytes: usize,
}

/// How memory is divided as runs are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forming {
    /// The bytes of a piece that is read.
    pub(crate) piece: usize,
    /// The bytes of a block that is written.
    pub(crate) block: usize,
    /// How many loads there are at a time.
    pub(crate) loads: usize,
    /// The bytes of a load: of its records, and all that is beside them.
    pub(crate) load: usize,
}

/// How memory is divided in a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merging {
    /// The bytes of a block that is read.
    pub(crate) block: usize,
    /// How many are read ahead.
    pub(crate) ahead: usize,
    /// The bytes of a piece that is written.
    pub(crate) piece: usize,
}

impl Budget {
    /// A budget of so many bytes.
    ///
    /// # Errors
    /// If that is less than [`LEAST`].
    pub fn new(given: u64) -> Result<Budget, SortError> {
        if given < LEAST {
            return Err(SortError::Memory { given, needed: LEAST });
        }
        let bytes = usize::try_from(given).unwrap_or(usize::MAX);
        // The program, its threads' stacks, and the kernel's own for what is being read and written.
        Ok(Budget { bytes: bytes - (bytes / 16).min(8 << 20) })
    }

    /// The largest record that can be merged: a block of each of two runs, one read ahead of each, and some being written.
    pub(crate) fn largest_record(self) -> usize {
        self.bytes / 16
    }

    /// How runs of such records, of so many bytes in all where that is known, are formed.
    pub(crate) fn forming(self, format: Format, length: Option<u64>) -> Forming {
        let piece = self.piece();
        // Of about this many runs there will be two blocks each in memory as they are merged.
        // What nobody knows the length of is taken to be this many times the memory: were it much more, it would take another pass.
        let length_of_runs = length.unwrap_or((self.bytes as u64).saturating_mul(UNKNOWN));
        let runs = length_of_runs / (self.bytes / 4) as u64 + 1;
        let block = usize::try_from(self.bytes as u64 / 4 / runs).unwrap_or(usize::MAX);
        let smallest = aligned(self.bytes / 1024).clamp(ALIGNMENT, 64 << 10);
        let block = aligned(block).clamp(smallest, LARGEST_BLOCK.min(piece * 2));
        let room = self.bytes - PIECES * (piece + block);
        // What fits into memory whole need not be divided up and merged.
        let whole = length.is_some_and(|length| {
            let (bytes, _) = records(room, format, SHORT_LINE);
            length <= bytes as u64
        });
        let loads = if whole { 1 } else { LOADS };
        Forming { piece, block, loads, load: room / loads }
    }

    /// The bytes of a piece that is read or written.
    pub(crate) fn piece(self) -> usize {
        aligned(self.bytes / 64).clamp(ALIGNMENT, LARGEST_PIECE)
    }

    /// How many runs can be merged at once whose largest block has so many bytes; at least two.
    pub(crate) fn fan_in(self, largest_block: usize) -> usize {
        let block = aligned_up(largest_block);
        ((self.bytes - self.output_of_merge()) / block / 2).max(2)
    }

    /// How so many runs are merged.
    pub(crate) fn merging(self, runs: usize, largest_block: usize) -> Merging {
        let block = aligned_up(largest_block);
        let room = (self.bytes - self.output_of_merge()) / block;
        Merging { block, ahead: room.saturating_sub(runs).clamp(2, 1024), piece: self.piece() }
    }

    fn output_of_merge(self) -> usize {
        PIECES * self.piece()
    }
}

impl Forming {
    /// How many bytes of records a load has, and how many records, where they have so many bytes on average.
    pub(crate) fn records(&self, format: Format, mean: usize) -> (usize, usize) {
        records(self.load, format, mean)
    }

    /// The bytes of a line that has a load for itself.
    pub(crate) fn longest_line(&self) -> usize {
        (self.load - ENTRY - LINE).min(MOST)
    }
}

/// How many bytes of records, and how many of them, fit into so much memory, with what is beside them.
fn records(memory: usize, format: Format, mean: usize) -> (usize, usize) {
    let (size, beside) = match format {
        Format::Fixed(size) => (size, ENTRY),
        Format::Lines => (mean.max(1), ENTRY + LINE),
    };
    let records = (memory / (size + beside)).clamp(1, MOST);
    match format {
        Format::Fixed(_) => (records * size, records),
        Format::Lines => ((records.saturating_mul(size)).min(MOST).max(size), records),
    }
}

/// The largest multiple of the alignment that is not larger.
fn aligned(bytes: usize) -> usize {
    bytes / ALIGNMENT * ALIGNMENT
}

/// The least multiple of the alignment that is not less, at least one.
pub(crate) fn aligned_up(bytes: usize) -> usize {
    bytes.div_ceil(ALIGNMENT).max(1) * ALIGNMENT
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_more_is_given_away_than_there_is(
            given in LEAST..1 << 36,
            length in prop::option::of(0..1u64 << 50),
            size in 1..1usize << 20,
        ) {
            let budget = Budget::new(given).unwrap();
            let format = Format::Fixed(size.min(budget.largest_record()));
            let forming = budget.forming(format, length);
            let all = PIECES * (forming.piece + forming.block) + forming.loads * forming.load;
            prop_assert!(all as u64 <= given && forming.block.is_multiple_of(ALIGNMENT) && forming.block >= ALIGNMENT);
            prop_assert!(forming.load >= budget.bytes / 6, "{forming:?}");

            let size = size.min(budget.largest_record());
            let (bytes, records) = forming.records(Format::Fixed(size), size);
            prop_assert!(bytes + records * ENTRY <= forming.load || records == 1);

            for block in [forming.block, aligned_up(budget.largest_record())] {
                let runs = budget.fan_in(block);
                let merging = budget.merging(runs, block);
                let all = (runs + merging.ahead) * merging.block + PIECES * merging.piece;
                prop_assert!(runs >= 2 && merging.ahead >= 2 && all as u64 <= given, "{runs} {merging:?}");
            }
        }
    }

    #[test]
    fn what_fits_into_memory_is_one_load() {
        let budget = Budget::new(512 << 20).unwrap();
        for (format, fits) in [(Format::Fixed(100), 400 << 20), (Format::Lines, 150 << 20)] {
            assert_eq!(budget.forming(format, Some(fits)).loads, 1);
            assert_eq!(budget.forming(format, Some(fits + (100 << 20))).loads, LOADS);
            assert_eq!(budget.forming(format, None).loads, LOADS);
        }
    }

    #[test]
    fn half_a_gibibyte_makes_thirty_runs_of_four_gigabytes_and_merges_them_at_once() {
        let budget = Budget::new(512 << 20).unwrap();
        let forming = budget.forming(Format::Fixed(100), Some(4_294_967_300));
        let (bytes, _) = forming.records(Format::Fixed(100), 100);
        let runs = 4_294_967_300 / bytes + 1;
        assert!((28..=33).contains(&runs), "{runs} runs");
        assert!(budget.fan_in(forming.block) >= runs, "{forming:?}");
        assert_eq!(forming.block, LARGEST_BLOCK);
    }
}
