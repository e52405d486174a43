//! The shape of the matrix: its rows and columns, chosen before the first record is read.

use crate::algorithm::Variant;
use crate::error::SortError;
use crate::file::ALIGNMENT;

/// The columns in flight: one is read, two are sorted, one is permuted, one is written, and one
/// waits.
pub(crate) const BUFFERS: usize = 6;

/// The number of columns that are sorted at once.
pub(crate) const SORTERS: usize = 2;

/// The additional columns of the last pass: the previous one and the one that is filled. Other
/// passes need one additional column.
pub(crate) const AUXILIARY: usize = 2;

/// The shared memory for messages from another rank, about.
const MESSAGES: u64 = 64 << 10;

/// The matrix for a number of records.
///
/// It has `rows` times `columns` places, the last of which are padding. The number of rows is even
/// and a multiple of the columns. With several columns there are at least `2 (columns - 1)^2` rows,
/// which columnsort requires.
///
/// In temporary files a column consists of as many *pieces* as there are columns, one from each
/// column of the previous pass. A piece begins at a multiple of [`ALIGNMENT`], so that it can be
/// written independently. The space between its last record and the next multiple is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of records, without padding.
    pub(crate) count: u64,
    /// The size of a record.
    pub(crate) record: usize,
    /// The number of records in a column.
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// The number of ranks, which have an equal number of columns each, one behind the other.
    pub(crate) ranks: u64,
}

impl Shape {
    /// Chooses the matrix with the fewest columns that fits into the memory of each of so many
    /// ranks: with fewer columns, pieces are larger.
    ///
    /// # Errors
    /// Returns [`SortError::Memory`] with the minimum if no matrix fits into the memory, and
    /// [`SortError::Unsupported`] if no amount of memory suffices.
    pub fn choose(count: u64, record: usize, memory: u64, variant: Variant, ranks: u64) -> Result<Shape, SortError> {
        let mut needed = None;
        for columns in (1..).map(|own| own * ranks) {
            let least = least_rows(columns).unwrap_or(u64::MAX).max(least_rows_of_ranks(record, ranks));
            let enough = count.div_ceil(columns).max(1);
            let multiple = if columns.is_multiple_of(2) { columns } else { 2 * columns };
            let rows = enough.max(least).checked_next_multiple_of(multiple);
            let shape = rows.and_then(|rows| Shape::new(count, record, rows, columns)?.divided(ranks));
            if let Some(shape) = shape {
                let takes = shape.memory(variant);
                if takes <= memory {
                    return Ok(shape);
                }
                needed = Some(needed.map_or(takes, |needed| takes.min(needed)));
            }
            // More columns than this would also require more rows.
            if least > enough {
                break;
            }
        }
        Err(match needed {
            Some(needed) => SortError::Memory { given: memory, needed },
            None => SortError::Unsupported(format!(
                "columnsort cannot sort {count} records of {record} bytes with any amount of memory; merging can"
            )),
        })
    }

    /// Creates a matrix of this shape. Returns `None` if it could not be sorted, has no room for
    /// all records, or has columns too large for the positions in entries.
    pub fn new(count: u64, record: usize, rows: u64, columns: u64) -> Option<Shape> {
        let is_sorted = rows >= least_rows(columns)? && rows.is_multiple_of(columns) && rows.is_multiple_of(2);
        let has_room = rows.checked_mul(columns)? >= count;
        // An index has at most 8 bytes, and a piece is followed by less than a page.
        let bytes = rows.checked_mul(record as u64 + 8)?.checked_add((columns + 3).checked_mul(ALIGNMENT as u64)?)?;
        let is_possible = is_sorted && has_room && record > 0 && bytes <= u64::from(u32::MAX);
        is_possible.then_some(Shape { count, record, rows, columns, ranks: 1 })
    }

    /// Divides the columns among so many ranks. Returns `None` if they cannot be equal, or if
    /// columns are so small that several ranks would write a page.
    pub fn divided(self, ranks: u64) -> Option<Shape> {
        let is_possible =
            self.columns.checked_rem(ranks) == Some(0) && self.rows >= least_rows_of_ranks(self.record, ranks);
        is_possible.then_some(Shape { ranks, ..self })
    }

    /// The number of columns of each rank.
    pub fn own(&self) -> u64 {
        self.columns / self.ranks
    }

    /// The number of records of a column that each rank gets.
    pub fn part(&self) -> u64 {
        self.rows / self.ranks
    }

    /// The number of records in half of a column.
    pub fn half(&self) -> u64 {
        self.rows / 2
    }

    /// The position in the output at which the part of a rank begins, and the number of bytes from
    /// there to the next page or the end, which the rank before writes.
    pub(crate) fn head(&self, rank: u64) -> (u64, usize) {
        let first = if rank == 0 { 0 } else { rank * self.own() * self.rows + self.half() };
        let [begin, end] = [first.min(self.count), self.count].map(|records| records * self.record as u64);
        (begin, (begin.next_multiple_of(ALIGNMENT as u64).min(end) - begin) as usize)
    }

    /// The size of a record's index in temporary files: as few bytes as hold all indices and that
    /// of padding. 0 if there is one column, which needs no temporary files.
    pub fn index(&self) -> usize {
        match self.columns {
            1 => 0,
            _ => (u64::BITS - self.count.leading_zeros()).div_ceil(8).max(1) as usize,
        }
    }

    /// The size of a record in temporary files.
    pub fn carried(&self) -> usize {
        self.index() + self.record
    }

    /// The number of records in a piece.
    pub fn piece(&self) -> u64 {
        self.rows / self.columns
    }

    /// The distance between the beginnings of two pieces, in bytes.
    pub fn span(&self) -> u64 {
        (self.piece() * self.carried() as u64).next_multiple_of(ALIGNMENT as u64)
    }

    /// The size of a buffer: a column as it is in the input, which need not begin or end at an
    /// aligned position, or as it is in temporary files.
    pub fn buffer(&self) -> usize {
        let in_input = (self.rows * self.record as u64).next_multiple_of(ALIGNMENT as u64) + 2 * ALIGNMENT as u64;
        in_input.max(self.columns * self.span()) as usize
    }

    /// The number of buffers in flight.
    pub fn buffers(&self) -> usize {
        BUFFERS.min(usize::try_from(self.own()).map_or(BUFFERS, |columns| columns + 1))
    }

    /// The weight of a byte in the progress bar: a single pass counts as much as three passes.
    pub(crate) fn weight(&self) -> u64 {
        if self.columns == 1 { 3 } else { 1 }
    }

    /// The total memory of a rank in bytes: the buffers, including the auxiliary ones, the entries
    /// of each column in memory, temporary memory for sorting, two columns for the exchange with
    /// other ranks (what it sends, and what has come), and a reserve for the program.
    pub fn memory(&self, variant: Variant) -> u64 {
        let (buffers, rows, buffer) = (self.buffers() as u64, self.rows, self.buffer() as u64);
        let entries = rows * size_of::<u128>() as u64;
        let columns = match variant {
            Variant::IoBound => (buffers + AUXILIARY as u64) * (buffer + entries) + SORTERS as u64 * entries,
            Variant::ComputeBound => (buffers + AUXILIARY as u64 + SORTERS as u64) * buffer,
        };
        let columns = columns + if self.ranks > 1 { 2 * buffer + self.ranks * MESSAGES } else { 0 };
        columns + (columns / 15).min(8 << 20)
    }
}

/// The minimum number of rows for this many columns.
fn least_rows(columns: u64) -> Option<u64> {
    (columns - 1).checked_pow(2)?.checked_mul(2)
}

/// The minimum number of rows for this many ranks: two ranks write no page both, and the part of a
/// rank in the output has the beginning of a page.
fn least_rows_of_ranks(record: usize, ranks: u64) -> u64 {
    if ranks == 1 { 0 } else { (2 * ALIGNMENT).div_ceil(record.max(1)) as u64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variants() -> impl Strategy<Value = Variant> {
        prop_oneof![Just(Variant::IoBound), Just(Variant::ComputeBound)]
    }

    proptest! {
        #[test]
        fn a_shape_is_valid_holds_all_records_and_fits_into_memory(
            count in prop_oneof![0u64..5000, 0u64..10_000_000_000],
            record in prop_oneof![1usize..300, 1usize..100_000],
            memory in prop_oneof![0u64..10_000_000, 0u64..10_000_000_000],
            variant in variants(),
            ranks in 1u64..9,
        ) {
            match Shape::choose(count, record, memory, variant, ranks) {
                Ok(shape) => {
                    let (rows, columns) = (shape.rows, shape.columns);
                    prop_assert!(shape.memory(variant) <= memory);
                    prop_assert!(rows * columns >= count);
                    prop_assert!(rows >= 2 * (columns - 1).pow(2));
                    prop_assert!(rows % columns == 0 && rows % 2 == 0);
                    prop_assert!(shape.buffer() as u64 <= u64::from(u32::MAX));
                    prop_assert!(shape.span() % ALIGNMENT as u64 == 0);
                    prop_assert!(shape.columns == 1 || count < 1 << (8 * shape.index()));
                    prop_assert_eq!((shape.ranks, shape.own() * ranks), (ranks, columns));
                    // Each rank has the first page that it writes for itself.
                    let parts: Vec<_> = (0..=ranks).map(|rank| shape.head(rank)).collect();
                    prop_assert_eq!((parts[0].0, parts[0].1, parts[ranks as usize].0), (0, 0, count * record as u64));
                    for part in parts.windows(2) {
                        prop_assert!(part[0].0 + part[0].1 as u64 <= part[1].0);
                    }
                }
                Err(SortError::Memory { given, needed }) => {
                    prop_assert!(given == memory && needed > memory);
                    prop_assert!(Shape::choose(count, record, needed, variant, ranks).is_ok());
                    prop_assert!(Shape::choose(count, record, needed - 1, variant, ranks).is_err());
                }
                Err(SortError::Unsupported(_)) => {
                    prop_assert!(Shape::choose(count, record, u64::MAX, variant, ranks).is_err());
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    #[test]
    fn records_that_fit_into_memory_are_one_column() {
        let shape = Shape::choose(1000, 100, 1 << 20, Variant::IoBound, 1).unwrap();
        assert_eq!((shape.columns, shape.rows, shape.index()), (1, 1000, 0));
    }

    #[test]
    fn a_rank_needs_the_memory_of_one_process_and_a_fifth_to_a_half_more() {
        let needed = |count, ranks| match Shape::choose(count, 100, 0, Variant::IoBound, ranks) {
            Err(SortError::Memory { needed, .. }) => needed as f64,
            other => panic!("{other:?}"),
        };
        for (count, most) in [(200_000, 1.5), (10_000_000, 1.25)] {
            for ranks in 2..=8 {
                let times = needed(count, ranks) / needed(count, 1);
                assert!((1.2..most).contains(&times), "{count} records, {ranks} ranks: {times}");
            }
        }
    }

    #[test]
    fn an_index_has_a_spare_value_for_padding() {
        for (count, bytes) in [(0, 1), (254, 1), (255, 1), (256, 2), (65535, 2), (65536, 3)] {
            assert_eq!(Shape::new(count, 10, 1 << 16, 4).unwrap().index(), bytes, "{count}");
        }
    }

    #[test]
    fn too_few_rows_are_refused() {
        assert!(Shape::new(100, 10, 2 * 7 * 7, 8).is_none(), "98 is no multiple of 8");
        assert!(Shape::new(100, 10, 96, 8).is_none());
        assert!(Shape::new(100, 10, 104, 8).is_some());
        assert!(Shape::new(833, 10, 104, 8).is_none(), "there is room for 832");
        assert!(Shape::new(3, 10, 3, 1).is_none(), "a column has two halves");
        let shape = |rows| Shape::new(100, 10, rows, 4).and_then(|shape| shape.divided(2));
        assert!(shape(816).is_none(), "two ranks would write the same page");
        assert!(shape(820).is_some());
        assert!(shape(820).unwrap().divided(3).is_none(), "4 columns are not 3 equal parts");
    }
}
