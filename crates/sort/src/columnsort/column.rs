//! A column in memory: the positions, comparison and order of its records.

use std::cmp::Ordering;
use std::collections::TryReserveError;

use crate::order::{FREE_BITS, Order};

use super::shape::Shape;

/// The prefix of padding, which comes after all records.
const BEYOND: u128 = u128::MAX << FREE_BITS;

/// The tag of a buffer.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// The position of the first record.
    pub(crate) start: usize,
    /// The number of records, including padding only if it is stored.
    pub(crate) count: usize,
    /// The order of the records: their prefixes, and their positions in the buffer. Empty if the
    /// records themselves are in order.
    pub(crate) entries: Vec<u128>,
    /// The position of the buffer's bytes in the output.
    pub(crate) place: u64,
}

impl Column {
    /// Returns the position of the `nth` record in order, from 0 on. `size` is the size of a
    /// record.
    #[inline]
    pub(crate) fn nth(&self, nth: usize, size: usize) -> usize {
        match self.entries.get(nth) {
            Some(&entry) => entry as u32 as usize,
            None => self.start + nth * size,
        }
    }

    /// The buffer has this many records now, in order, from its first byte on.
    pub(crate) fn become_ordered(&mut self, count: usize) {
        self.entries.clear();
        (self.start, self.count) = (0, count);
    }
}

/// The layout of a column in a buffer, and the comparison of its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnLayout<'s> {
    order: &'s Order,
    /// The size of the index before each record, in bytes. Indices are big-endian; that of padding
    /// has all bits set.
    pub(crate) index: usize,
    /// The size of a record with its index.
    pub(crate) size: usize,
    piece: usize,
    /// The distance between the beginnings of two pieces, in bytes.
    span: usize,
    /// Whether equal records lie in the order of the input, so that their positions can replace
    /// indices.
    is_in_order_of_input: bool,
}

impl<'s> ColumnLayout<'s> {
    /// The layout in the input: one piece without indices.
    pub(crate) fn of_input(order: &'s Order, shape: &Shape) -> ColumnLayout<'s> {
        let (size, piece) = (shape.record, shape.rows as usize);
        ColumnLayout { order, index: 0, size, piece, span: 0, is_in_order_of_input: true }
    }

    /// The layout in temporary files.
    pub(crate) fn of_columns(order: &'s Order, shape: &Shape, is_in_order_of_input: bool) -> ColumnLayout<'s> {
        let (index, size) = (shape.index(), shape.carried());
        let (piece, span) = (shape.piece() as usize, shape.span() as usize);
        ColumnLayout { order, index, size, piece, span, is_in_order_of_input }
    }

    /// The record at this position, with its index.
    #[inline]
    pub(crate) fn record<'b>(&self, bytes: &'b [u8], at: usize) -> &'b [u8] {
        &bytes[at..at + self.size]
    }

    /// Copies the `nth` record of a sorted column into the layout of temporary files, or padding if
    /// it has no such record. If records have no indices here, they get them: `first` is that of
    /// the column's first record.
    #[inline]
    pub(crate) fn carry_nth(
        &self,
        (bytes, column, nth): (&[u8], &Column, usize),
        first: u64,
        then: &ColumnLayout<'_>,
        to: &mut [u8],
    ) {
        if nth >= column.count {
            to[..then.index].fill(u8::MAX);
            to[then.index..].fill(0);
            return;
        }
        let at = column.nth(nth, self.size);
        let record = self.record(bytes, at);
        if self.index < then.index {
            then.carry(first + ((at - column.start) / self.size) as u64, record, to);
        } else {
            to.copy_from_slice(record);
        }
    }

    /// Writes a record of the input with its index.
    #[inline]
    pub(crate) fn carry(&self, index: u64, record: &[u8], to: &mut [u8]) {
        let (before, after) = to.split_at_mut(self.index);
        before.copy_from_slice(&index.to_be_bytes()[size_of::<u64>() - self.index..]);
        after.copy_from_slice(record);
    }

    /// The start and the number of records of each piece.
    fn pieces(&self, column: &Column) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (piece, span, start, count) = (self.piece, self.span, column.start, column.count);
        (0..count.div_ceil(piece)).map(move |number| (start + number * span, piece.min(count - number * piece)))
    }

    /// Makes an entry for each record, in the order of their positions.
    pub(crate) fn fill_entries(&self, bytes: &[u8], column: &mut Column) -> Result<(), TryReserveError> {
        let mut entries = std::mem::take(&mut column.entries);
        entries.clear();
        // Allocates exactly once.
        entries.try_reserve_exact(column.count)?;
        for (start, count) in self.pieces(column) {
            entries.extend((0..count).map(|number| {
                let at = start + number * self.size;
                let (index, record) = self.record(bytes, at).split_at(self.index);
                let prefix = if is_padding(index) { BEYOND } else { self.order.prefix(record) };
                prefix | at as u128
            }));
        }
        column.entries = entries;
        Ok(())
    }

    /// Resolves ties in entries that are sorted by their prefixes and positions.
    pub(crate) fn resolve_ties(&self, bytes: &[u8], entries: &mut [u128]) {
        if self.is_in_order_of_input && self.order.is_decided_by_prefix() {
            // Padding follows records of the same prefix because of its position.
            return;
        }
        for equal in entries.chunk_by_mut(|left, right| left >> FREE_BITS == right >> FREE_BITS) {
            if equal.len() > 1 {
                equal.sort_unstable_by(|&left, &right| {
                    let [first, second] = [left, right].map(|entry| self.record(bytes, entry as u32 as usize));
                    // The lower bits are positions.
                    self.compare(first, second).then(left.cmp(&right))
                });
            }
        }
    }

    /// Moves the pieces next to each other, starting at the first byte.
    pub(crate) fn close_gaps(&self, bytes: &mut [u8], column: &mut Column) {
        if column.count > self.piece {
            let mut to = 0;
            for (from, count) in self.pieces(column) {
                let length = count * self.size;
                bytes.copy_within(from..from + length, to);
                to += length;
            }
            column.start = 0;
        }
    }

    /// Compares two records with their indices. Equal records either lie in the order of the input
    /// already, or have different indices.
    pub(crate) fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let ((left_index, left), (right_index, right)) = (left.split_at(self.index), right.split_at(self.index));
        let by_padding = is_padding(left_index).cmp(&is_padding(right_index));
        let by_keys = || if is_padding(left_index) { Ordering::Equal } else { self.order.compare(left, right) };
        let by_index = || if self.is_in_order_of_input { Ordering::Equal } else { left_index.cmp(right_index) };
        by_padding.then_with(by_keys).then_with(by_index)
    }

    /// Compares the `nth` record of one column with the `nth` record of another.
    #[inline]
    pub(crate) fn compare_nth(&self, left: (&[u8], &Column, usize), right: (&[u8], &Column, usize)) -> Ordering {
        let prefix =
            |(_, column, nth): (&[u8], &Column, usize)| column.entries.get(nth).map(|entry| entry >> FREE_BITS);
        // A column from another rank has no entries.
        let by_prefix = prefix(left).zip(prefix(right)).map_or(Ordering::Equal, |(left, right)| left.cmp(&right));
        by_prefix.then_with(|| {
            let [left, right] =
                [left, right].map(|(bytes, column, nth)| self.record(bytes, column.nth(nth, self.size)));
            self.compare(left, right)
        })
    }
}

/// Whether this is the index of padding. Records without indices are never padding.
#[inline]
fn is_padding(index: &[u8]) -> bool {
    index.first() == Some(&u8::MAX) && index.iter().all(|&byte| byte == u8::MAX)
}
