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
}

impl Shape {
    /// Chooses the matrix with the fewest columns that fits into memory: with fewer columns, pieces
    /// are larger.
    ///
    /// # Errors
    /// Returns [`SortError::Memory`] with the minimum if no matrix fits into the memory, and
    /// [`SortError::Unsupported`] if no amount of memory suffices.
    pub fn choose(count: u64, record: usize, memory: u64, variant: Variant) -> Result<Shape, SortError> {
        let mut needed = None;
        for columns in 1.. {
            let (enough, least) = (count.div_ceil(columns).max(1), least_rows(columns).unwrap_or(u64::MAX));
            let multiple = if columns.is_multiple_of(2) { columns } else { 2 * columns };
            let rows = enough.max(least).checked_next_multiple_of(multiple);
            if let Some(shape) = rows.and_then(|rows| Shape::new(count, record, rows, columns)) {
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
        is_possible.then_some(Shape { count, record, rows, columns })
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
        BUFFERS.min(usize::try_from(self.columns).map_or(BUFFERS, |columns| columns + 1))
    }

    /// The weight of a byte in the progress bar: a single pass counts as much as three passes.
    pub(crate) fn weight(&self) -> u64 {
        if self.columns == 1 { 3 } else { 1 }
    }

    /// The total memory in bytes: the buffers, including the auxiliary ones, the entries of each
    /// column in memory, temporary memory for sorting, and a reserve for the program.
    pub fn memory(&self, variant: Variant) -> u64 {
        let (buffers, rows, buffer) = (self.buffers() as u64, self.rows, self.buffer() as u64);
        let entries = rows * size_of::<u128>() as u64;
        let columns = match variant {
            Variant::IoBound => (buffers + AUXILIARY as u64) * (buffer + entries) + SORTERS as u64 * entries,
            Variant::ComputeBound => (buffers + AUXILIARY as u64 + SORTERS as u64) * buffer,
        };
        columns + (columns / 15).min(8 << 20)
    }
}

/// The minimum number of rows for this many columns.
fn least_rows(columns: u64) -> Option<u64> {
    (columns - 1).checked_pow(2)?.checked_mul(2)
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
        ) {
            match Shape::choose(count, record, memory, variant) {
                Ok(shape) => {
                    let (rows, columns) = (shape.rows, shape.columns);
                    prop_assert!(shape.memory(variant) <= memory);
                    prop_assert!(rows * columns >= count);
                    prop_assert!(rows >= 2 * (columns - 1).pow(2));
                    prop_assert!(rows % columns == 0 && rows % 2 == 0);
                    prop_assert!(shape.buffer() as u64 <= u64::from(u32::MAX));
                    prop_assert!(shape.span() % ALIGNMENT as u64 == 0);
                    prop_assert!(shape.columns == 1 || count < 1 << (8 * shape.index()));
                }
                Err(SortError::Memory { given, needed }) => {
                    prop_assert!(given == memory && needed > memory);
                    prop_assert!(Shape::choose(count, record, needed, variant).is_ok());
                    prop_assert!(Shape::choose(count, record, needed - 1, variant).is_err());
                }
                Err(SortError::Unsupported(_)) => {
                    prop_assert!(Shape::choose(count, record, u64::MAX, variant).is_err());
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    #[test]
    fn records_that_fit_into_memory_are_one_column() {
        let shape = Shape::choose(1000, 100, 1 << 20, Variant::IoBound).unwrap();
        assert_eq!((shape.columns, shape.rows, shape.index()), (1, 1000, 0));
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
    }
}
