//! The stage that sorts a column.

use std::cmp::Ordering;

use pipeline::{Buffer, Flow, Round, Stage};

use crate::algorithm::Variant;
use crate::chunk::Chunk;
use crate::error::SortError;
use crate::order::Format;

use super::Pass;
use super::column::{Column, ColumnLayout};
use super::transfer::Source;

/// Sorts columns, several at once. The compute-bound variant needs an auxiliary buffer for each.
pub(super) struct Sorting<'s>(pub(super) Pass<'s>);

impl Stage<Column> for Sorting<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let Pass { sort, source, form, .. } = self.0;
        let mut column = std::mem::take(&mut buffer.tag);
        // The first pass that reads the records counts them.
        if !matches!(source, Source::Columns(_)) {
            let (mut chunk, format) = (Chunk::default(), Format::Fixed(form.size));
            let records = &buffer.space()[column.start..][..column.count * form.size];
            chunk.find(records, format);
            sort.job.counts.add_read(&chunk, records, format);
        }
        match sort.variant {
            Variant::IoBound => self.by_entries(buffer, &mut column)?,
            Variant::ComputeBound => {
                let number = round.number;
                if let [scratch, ..] = round.auxiliary {
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
    fn by_entries(&self, buffer: &mut Buffer<Column>, column: &mut Column) -> Result<(), SortError> {
        self.0.form.fill_entries(buffer.space(), column)?;
        if self.0.are_pieces_sorted {
            merge_pieces(&mut column.entries, self.0.shape.piece() as usize)?;
        } else {
            column.entries.sort_unstable();
        }
        self.0.form.resolve_ties(buffer.space(), &mut column.entries);
        Ok(())
    }

    /// Sorts whole records by merge sort, starting from single records.
    fn by_comparison(
        &self,
        number: u64,
        buffer: &mut Buffer<Column>,
        scratch: &mut Buffer<Column>,
        column: &mut Column,
    ) {
        let Pass { form: before, sorted: form, .. } = self.0;
        column.entries.clear();
        if form.index > before.index {
            let (from, to) = (&buffer.space()[column.start..], scratch.space());
            let records = from.chunks_exact(before.size).zip(to.chunks_exact_mut(form.size)).take(column.count);
            for (index, (from, to)) in (self.0.first_index(number)..).zip(records) {
                form.carry(index, from, to);
            }
            buffer.swap(scratch);
            column.start = 0;
        } else {
            before.close_gaps(buffer.space(), column);
        }
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

/// Merges sorted pieces of this many entries, two by two.
fn merge_pieces(entries: &mut Vec<u128>, piece: usize) -> Result<(), SortError> {
    let mut other = Vec::new();
    other.try_reserve_exact(entries.len())?;
    other.resize(entries.len(), 0);
    let mut width = piece;
    while width < entries.len() {
        for (from, to) in entries.chunks(2 * width).zip(other.chunks_mut(2 * width)) {
            let (left, right) = from.split_at(width.min(from.len()));
            let (mut lefts, mut rights) = (0, 0);
            for to in to {
                let is_left = rights == right.len() || lefts < left.len() && left[lefts] <= right[rights];
                *to = if is_left { left[lefts] } else { right[rights] };
                lefts += usize::from(is_left);
                rights += usize::from(!is_left);
            }
        }
        std::mem::swap(entries, &mut other);
        width *= 2;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merging_pieces_equals_sorting(mut entries in prop::collection::vec(0..99u128, 0..200), piece in 1..70usize) {
            entries.chunks_mut(piece).for_each(<[u128]>::sort_unstable);
            let mut merged = entries.clone();
            merge_pieces(&mut merged, piece).unwrap();
            entries.sort_unstable();
            prop_assert_eq!(merged, entries);
        }
    }
}
