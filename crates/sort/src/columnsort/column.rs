//! A column in memory: where its records are, how they are compared, and in which order they come.

use std::cmp::Ordering;

use crate::order::{FREE_BITS, Order};

use super::shape::Shape;

/// The prefix of padding, which comes after all records.
const BEYOND: u128 = u128::MAX << FREE_BITS;

/// What travels with a buffer.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// Where the first record begins.
    pub(crate) start: usize,
    /// How many records there are, padding not counted where it is only thought of.
    pub(crate) count: usize,
    /// The order of the records: their prefixes, and where in the buffer each begins. Empty where they are in order themselves.
    pub(crate) entries: Vec<u128>,
    /// Where in the output the buffer's bytes go.
    pub(crate) place: u64,
}

impl Column {
    /// Where the record begins that is the `nth` in order, from 0 on. Records that are in order themselves have so many bytes.
    #[inline]
    pub(crate) fn nth(&self, nth: usize, size: usize) -> usize {
        match self.entries.get(nth) {
            Some(&entry) => entry as u32 as usize,
            None => self.start + nth * size,
        }
    }
}

/// How the records of a column lie in a buffer, and what they are compared by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnLayout<'s> {
    order: &'s Order,
    /// How many bytes of a record are its index, which comes before it, the byte first that counts most. Padding has ones only.
    pub(crate) index: usize,
    /// How many bytes a record has with its index.
    pub(crate) size: usize,
    /// How many records a piece has.
    piece: usize,
    /// How many bytes there are from one piece to the next.
    span: usize,
    /// Whether records lie within a column as they did in the input, as far as they are equal: then their places are as good as indices.
    is_in_order_of_input: bool,
}

impl<'s> ColumnLayout<'s> {
    /// As in the input: without indices, and all in one piece.
    pub(crate) fn of_input(order: &'s Order, shape: &Shape) -> ColumnLayout<'s> {
        let (size, piece) = (shape.record(), shape.rows() as usize);
        ColumnLayout { order, index: 0, size, piece, span: 0, is_in_order_of_input: true }
    }

    /// As in temporary files.
    pub(crate) fn of_columns(order: &'s Order, shape: &Shape, is_in_order_of_input: bool) -> ColumnLayout<'s> {
        let (index, size) = (shape.index(), shape.carried());
        ColumnLayout {
            order,
            index,
            size,
            piece: shape.piece() as usize,
            span: shape.span() as usize,
            is_in_order_of_input,
        }
    }

    /// The record that begins here, with its index.
    #[inline]
    pub(crate) fn record<'b>(&self, bytes: &'b [u8], at: usize) -> &'b [u8] {
        &bytes[at..at + self.size]
    }

    /// Writes a record of the input with its index.
    #[inline]
    pub(crate) fn carry(&self, index: u64, record: &[u8], to: &mut [u8]) {
        let (before, after) = to.split_at_mut(self.index);
        before.copy_from_slice(&index.to_be_bytes()[size_of::<u64>() - self.index..]);
        after.copy_from_slice(record);
    }

    /// Of each piece, where it begins and how many records it has.
    fn pieces(&self, column: &Column) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (piece, span, start, count) = (self.piece, self.span, column.start, column.count);
        (0..count.div_ceil(piece)).map(move |number| (start + number * span, piece.min(count - number * piece)))
    }

    /// Makes an entry for each record, in the order in which they lie.
    pub(crate) fn fill_entries(&self, bytes: &[u8], column: &mut Column) {
        let mut entries = std::mem::take(&mut column.entries);
        entries.clear();
        // What was not asked for before is asked for once and for all.
        entries.reserve_exact(column.count);
        for (start, count) in self.pieces(column) {
            entries.extend((0..count).map(|number| {
                let at = start + number * self.size;
                let (index, record) = self.record(bytes, at).split_at(self.index);
                let prefix = if is_padding(index) { BEYOND } else { self.order.prefix(record) };
                prefix | at as u128
            }));
        }
        column.entries = entries;
    }

    /// Puts entries in order that are in the order of their prefixes, and of their places where these are equal.
    pub(crate) fn resolve_ties(&self, bytes: &[u8], entries: &mut [u128]) {
        if self.is_in_order_of_input && self.order.is_decided_by_prefix() {
            // Padding comes after records of the same prefix by its place.
            return;
        }
        for equal in entries.chunk_by_mut(|left, right| left >> FREE_BITS == right >> FREE_BITS) {
            if equal.len() > 1 {
                equal.sort_by(|&left, &right| {
                    self.compare(self.record(bytes, left as u32 as usize), self.record(bytes, right as u32 as usize))
                });
            }
        }
    }

    /// Puts the pieces next to each other, from the first byte on.
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

    /// Which of two records comes first, both with their indices. Equal ones can only be of the same place, or they are in the order of the input.
    pub(crate) fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let ((left_index, left), (right_index, right)) = (left.split_at(self.index), right.split_at(self.index));
        let by_padding = is_padding(left_index).cmp(&is_padding(right_index));
        let by_keys = || if is_padding(left_index) { Ordering::Equal } else { self.order.compare(left, right) };
        let by_index = || if self.is_in_order_of_input { Ordering::Equal } else { left_index.cmp(right_index) };
        by_padding.then_with(by_keys).then_with(by_index)
    }

    /// Which record comes first, the one of one column or the one of another, where these are the `nth` in order there.
    #[inline]
    pub(crate) fn compare_nth(&self, left: (&[u8], &Column, usize), right: (&[u8], &Column, usize)) -> Ordering {
        let prefix =
            |(_, column, nth): (&[u8], &Column, usize)| column.entries.get(nth).map(|entry| entry >> FREE_BITS);
        prefix(left).cmp(&prefix(right)).then_with(|| {
            let [left, right] =
                [left, right].map(|(bytes, column, nth)| self.record(bytes, column.nth(nth, self.size)));
            self.compare(left, right)
        })
    }
}

/// Whether this is the index of padding. Where records carry none, there is no padding among them.
#[inline]
fn is_padding(index: &[u8]) -> bool {
    index.first() == Some(&u8::MAX) && index.iter().all(|&byte| byte == u8::MAX)
}
