//! The stage that sorts a column.

use std::cmp::Ordering;

use pipeline::{Buffer, Flow, Round, Stage};

use crate::algorithm::Variant;
use crate::chunk::Chunk;
use crate::order::Format;
use crate::record_counts::RecordCounts;

use super::column::{Column, ColumnLayout};

/// Sorts columns, several at once. The compute-bound variant needs an auxiliary buffer for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sorting<'s> {
    pub(crate) variant: Variant,
    /// The layout of the incoming column.
    pub(crate) form: ColumnLayout<'s>,
    /// The layout of the outgoing column. If sorting moves records, it needs their indices already.
    pub(crate) then: ColumnLayout<'s>,
    /// The number of rows in the matrix.
    pub(crate) rows: u64,
    /// Whether the pieces of a column are sorted.
    pub(crate) are_pieces_sorted: bool,
    /// The counts, if this pass is the first to read the records.
    pub(crate) counts: Option<&'s RecordCounts>,
}

impl Stage<Column> for Sorting<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let mut column = std::mem::take(&mut buffer.tag);
        if let Some(counts) = self.counts {
            let (mut chunk, format) = (Chunk::default(), Format::Fixed(self.form.size));
            let records = &buffer.space()[column.start..][..column.count * self.form.size];
            chunk.find(records, format);
            counts.add_read(&chunk, records, format);
        }
        match self.variant {
            Variant::IoBound => self.by_entries(buffer, &mut column),
            Variant::ComputeBound => {
                let number = round.number();
                if let [scratch, ..] = round.auxiliary() {
                    self.by_comparison(number, buffer, scratch, &mut column);
                }
            }
        }
        buffer.tag = column;
        Ok(Flow::Convey)
    }
}

impl Sorting<'_> {
    /// Sorts entries, which hold the prefix of a key and the position of its record.
    fn by_entries(&self, buffer: &mut Buffer<Column>, column: &mut Column) {
        self.form.fill_entries(buffer.space(), column);
        if self.are_pieces_sorted {
            // A stable sort detects sorted runs and merges them.
            column.entries.sort();
        } else {
            column.entries.sort_unstable();
        }
        self.form.resolve_ties(buffer.space(), &mut column.entries);
    }

    /// Sorts whole records by merge sort, starting from single records.
    fn by_comparison(
        &self,
        number: u64,
        buffer: &mut Buffer<Column>,
        scratch: &mut Buffer<Column>,
        column: &mut Column,
    ) {
        column.entries.clear();
        if self.then.index > self.form.index {
            let (from, to) = (&buffer.space()[column.start..], scratch.space());
            let records = from.chunks_exact(self.form.size).zip(to.chunks_exact_mut(self.then.size)).take(column.count);
            for (index, (from, to)) in (number * self.rows..).zip(records) {
                self.then.carry(index, from, to);
            }
            buffer.swap(scratch);
            column.start = 0;
        } else {
            self.form.close_gaps(buffer.space(), column);
        }
        let form = self.then;
        let range = column.start..column.start + column.count * form.size;
        let mut width = form.size;
        while width < range.len() {
            let (from, to) = (&buffer.space()[range.clone()], &mut scratch.space()[range.clone()]);
            for (from, to) in from.chunks(2 * width).zip(to.chunks_mut(2 * width)) {
                let (left, right) = from.split_at(width.min(from.len()));
                merge(form, left, right, to);
            }
            buffer.swap(scratch);
            width *= 2;
        }
    }
}

/// Merges sorted records stably.
fn merge<'r>(form: ColumnLayout<'_>, mut left: &'r [u8], mut right: &'r [u8], to: &mut [u8]) {
    for to in to.chunks_exact_mut(form.size) {
        let is_left = right.is_empty()
            || !left.is_empty() && form.compare(&left[..form.size], &right[..form.size]) != Ordering::Greater;
        let from = if is_left { &mut left } else { &mut right };
        let (record, rest) = from.split_at(form.size);
        to.copy_from_slice(record);
        *from = rest;
    }
}
