//! The division of the memory budget. It counts everything that grows with the budget: buffers,
//! entries and the positions of lines.
//!
//! Forming runs takes three loads of records, of which one is filled, one sorted and one written,
//! or one load if everything fits into it. Each record takes 16 bytes more, and each line 4 more.
//! Pieces of the input and the output are added. Merging takes a block of each run and some blocks
//! for the output; the rest is for blocks read ahead.

use crate::error::SortError;
use crate::file::ALIGNMENT;
use crate::order::Format;

/// The smallest memory budget, in bytes: a page for each piece, block and load, and the reserve.
pub const LEAST: u64 = ((2 * PIECES + LOADS) * ALIGNMENT * RESERVE / (RESERVE - 1)) as u64;

/// The reserve is this part of the budget.
const RESERVE: usize = 16;

/// The bytes of an entry, which each record needs for sorting.
const ENTRY: usize = size_of::<u128>();

/// The bytes of a line's position.
const LINE: usize = size_of::<u32>();

/// The largest index of a record and the largest position of a line, which have 32 bits.
const MOST: usize = u32::MAX as usize - 1;

/// The number of loads unless everything fits into one.
const LOADS: usize = 3;

/// The average line length that is assumed to decide whether all lines fit into one load.
const SHORT_LINE: usize = 10;

/// The number of pieces that are read and written at a time.
pub(crate) const PIECES: usize = 6;

/// The largest number of bytes read or written at once.
const LARGEST_PIECE: usize = 1 << 20;

/// The largest block, unless a single record is larger.
const LARGEST_BLOCK: usize = 2 << 20;

/// The largest number of blocks that a merge reads ahead. More would not make the disk busier, and
/// the lists of buffers would become large.
const MOST_AHEAD: usize = 256;

/// The assumed length of a stream, as a multiple of the memory.
const UNKNOWN: u64 = 64;

/// The budget for records of this size, of which [`Budget::largest_record`] is a part. `None` if no
/// machine has it.
pub(crate) fn for_records(size: u64) -> Option<u64> {
    size.checked_mul(18)?.checked_add(LEAST)
}

/// A memory budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The memory that is divided, without a reserve for the process itself.
    bytes: usize,
}

/// The division of memory while runs are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forming {
    /// The size of a piece that is read.
    pub(crate) piece: usize,
    /// The size of a block that is written.
    pub(crate) block: usize,
    pub(crate) loads: usize,
    /// The size of a load: its records and all data about them.
    pub(crate) load: usize,
}

/// The division of memory during a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merging {
    /// The size of a block that is read.
    pub(crate) block: usize,
    pub(crate) ahead: usize,
    /// The size of a piece that is written.
    pub(crate) piece: usize,
}

impl Budget {
    /// Creates a budget of this many bytes.
    ///
    /// # Errors
    /// Returns an error if `given` is less than [`LEAST`].
    pub fn new(given: u64) -> Result<Budget, SortError> {
        if given < LEAST {
            return Err(SortError::Memory { given, needed: LEAST });
        }
        let bytes = usize::try_from(given).unwrap_or(usize::MAX);
        // A reserve for the program, its threads' stacks, and the kernel's memory for reads and
        // writes.
        Ok(Budget { bytes: bytes - (bytes / RESERVE).min(8 << 20) })
    }

    /// The budget beyond which more memory does not help to sort this many bytes: all of them fit
    /// into one load, however short the lines are, unless they are more than a load can have, and
    /// they could be merged if they are one record.
    pub(crate) fn most_useful(format: Format, length: u64) -> u64 {
        let (size, beside) = parts(format, 1);
        let load = length.saturating_add((length / size as u64).saturating_mul(beside as u64));
        let merged = for_records(length.min(size as u64)).unwrap_or(u64::MAX);
        // The pieces and the reserve take less than half.
        load.saturating_mul(2).saturating_add(LEAST).max(merged)
    }

    /// The largest record that can be merged: one block of each of two runs, one block read ahead
    /// of each, and some blocks to write.
    pub(crate) fn largest_record(self) -> usize {
        self.bytes / 16
    }

    /// Plans how to form runs of records of this format. `length` is the size of the input if it is
    /// known.
    pub(crate) fn forming(self, format: Format, length: Option<u64>) -> Forming {
        let piece = self.piece();
        // About this many runs will be merged, with two blocks of each in memory. A stream is
        // assumed to be `UNKNOWN` times as long as the memory; one that is much longer takes
        // another pass.
        let length_of_runs = length.unwrap_or((self.bytes as u64).saturating_mul(UNKNOWN));
        let runs = length_of_runs / (self.bytes / 4) as u64 + 1;
        let block = usize::try_from(self.bytes as u64 / 4 / runs).unwrap_or(usize::MAX);
        let smallest = aligned(self.bytes / 1024).clamp(ALIGNMENT, 64 << 10);
        let largest = aligned(self.bytes / 16).clamp(ALIGNMENT, LARGEST_BLOCK.min(piece * 2));
        let block = aligned(block).clamp(smallest, largest);
        let room = self.bytes - PIECES * (piece + block);
        // Input that fits into memory needs no division and no merge.
        let whole = length.is_some_and(|length| {
            let (bytes, _) = records(room, format, SHORT_LINE);
            length <= bytes as u64
        });
        let loads = if whole { 1 } else { LOADS };
        Forming { piece, block, loads, load: room / loads }
    }

    /// The size of a piece that is read or written.
    pub(crate) fn piece(self) -> usize {
        aligned(self.bytes / 64).clamp(ALIGNMENT, LARGEST_PIECE)
    }

    /// The number of runs that can be merged at once if their largest block has this size; at least
    /// two.
    pub(crate) fn fan_in(self, largest_block: usize) -> usize {
        (self.blocks(largest_block) / 2).max(2)
    }

    /// Plans a merge of this many runs.
    pub(crate) fn merging(self, runs: usize, largest_block: usize) -> Merging {
        let ahead = self.blocks(largest_block).saturating_sub(runs).clamp(2, MOST_AHEAD);
        Merging { block: aligned_up(largest_block), ahead, piece: self.piece() }
    }

    /// The number of blocks of this size beside the output of a merge.
    fn blocks(self, largest_block: usize) -> usize {
        (self.bytes - PIECES * self.piece()) / aligned_up(largest_block)
    }
}

impl Forming {
    /// The size of a load's records in bytes, and their number, if records have this average
    /// length.
    pub(crate) fn records(&self, format: Format, mean: usize) -> (usize, usize) {
        records(self.load, format, mean)
    }

    /// The maximum length of a line that has a load for itself.
    pub(crate) fn longest_line(&self) -> usize {
        (self.load - ENTRY - LINE).min(MOST)
    }
}

/// The size in bytes and the number of records that fit into this much memory together with the
/// data about them.
fn records(memory: usize, format: Format, mean: usize) -> (usize, usize) {
    let (size, beside) = parts(format, mean);
    let records = (memory / (size + beside)).clamp(1, MOST);
    match format {
        Format::Fixed(_) => (records * size, records),
        Format::Lines => ((records.saturating_mul(size)).min(MOST).max(size), records),
    }
}

/// The size of a record, and of the data about it.
fn parts(format: Format, mean: usize) -> (usize, usize) {
    match format {
        Format::Fixed(size) => (size, ENTRY),
        Format::Lines => (mean.max(1), ENTRY + LINE),
    }
}

/// The largest multiple of the alignment that is at most `bytes`.
fn aligned(bytes: usize) -> usize {
    bytes / ALIGNMENT * ALIGNMENT
}

/// The smallest multiple of the alignment that is at least `bytes`, and not 0.
pub(crate) fn aligned_up(bytes: usize) -> usize {
    bytes.div_ceil(ALIGNMENT).max(1) * ALIGNMENT
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plans_stay_within_the_budget(
            given in LEAST..1 << 36,
            length in prop::option::of(0..1u64 << 50),
            size in 1..1usize << 20,
        ) {
            let budget = Budget::new(given).unwrap();
            let format = Format::Fixed(size.min(budget.largest_record()));
            let forming = budget.forming(format, length);
            let all = PIECES * (forming.piece + forming.block) + forming.loads * forming.load;
            prop_assert!(all as u64 <= given && forming.block.is_multiple_of(ALIGNMENT) && forming.block >= ALIGNMENT);
            let least = if given < 256 << 10 { budget.largest_record() + ENTRY + LINE } else { budget.bytes / 6 };
            prop_assert!(forming.load >= least, "{forming:?}");

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

    proptest! {
        #[test]
        fn all_input_is_one_load_in_the_most_useful_memory(length in 0..MOST as u64, size in 1..100_000usize) {
            for format in [Format::Fixed(size), Format::Lines] {
                let budget = Budget::new(Budget::most_useful(format, length)).unwrap();
                let forming = budget.forming(format, Some(length));
                prop_assert_eq!(forming.loads, 1);
                let (bytes, records) = forming.records(format, 1);
                let size = if format == Format::Lines { 1 } else { size as u64 };
                prop_assert!(bytes as u64 >= length / size * size && records as u64 >= length / size, "{forming:?}");
            }
        }
    }

    #[test]
    fn input_that_fits_into_memory_is_one_load() {
        let budget = Budget::new(512 << 20).unwrap();
        for (format, fits) in [(Format::Fixed(100), 400 << 20), (Format::Lines, 150 << 20)] {
            assert_eq!(budget.forming(format, Some(fits)).loads, 1);
            assert_eq!(budget.forming(format, Some(fits + (100 << 20))).loads, LOADS);
            assert_eq!(budget.forming(format, None).loads, LOADS);
        }
    }

    #[test]
    fn half_a_gibibyte_forms_thirty_runs_of_four_gigabytes_and_merges_them_at_once() {
        let budget = Budget::new(512 << 20).unwrap();
        let forming = budget.forming(Format::Fixed(100), Some(4_294_967_300));
        let (bytes, _) = forming.records(Format::Fixed(100), 100);
        let runs = 4_294_967_300 / bytes + 1;
        assert!((28..=33).contains(&runs), "{runs} runs");
        assert!(budget.fan_in(forming.block) >= runs, "{forming:?}");
        assert_eq!(forming.block, LARGEST_BLOCK);
    }
}
