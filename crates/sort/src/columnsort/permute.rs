//! The stages that put the records of a sorted column where they are to be written.

use std::cmp::Ordering;

use pipeline::{Buffer, Flow, Round, Stage};

use crate::file::ALIGNMENT;
use crate::job::Job;

use super::column::{Column, ColumnLayout};
use super::shape::Shape;

/// To which columns the records of a column go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permutation {
    /// One to each in turn: the matrix, read by columns, is written by rows.
    Transpose,
    /// The first of them to the first column, the next to the next: it is read by rows, and written by columns.
    Untranspose,
}

/// Puts the records of a column into pieces, one for each column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permute<'s> {
    pub(crate) permutation: Permutation,
    pub(crate) shape: Shape,
    /// How records lie when they come. If they have no indices, they get them here.
    pub(crate) form: ColumnLayout<'s>,
    /// How they lie when they go.
    pub(crate) then: ColumnLayout<'s>,
}

/// So many records are dealt to a column before any go to the next. Pieces lie some pages apart from each other, and what is written to each is in
/// the same few sets of the processor's cache; so it had better be whole lines.
const TOGETHER: usize = 16;

impl Permute<'_> {
    /// Calls this for each record with its number in order, and where it goes.
    fn place(&self, mut put: impl FnMut(usize, usize)) {
        let (columns, piece) = (self.shape.columns() as usize, self.shape.piece() as usize);
        let (span, size) = (self.shape.span() as usize, self.then.size);
        match self.permutation {
            Permutation::Transpose => {
                for first in (0..piece).step_by(TOGETHER) {
                    for column in 0..columns {
                        for row in first..piece.min(first + TOGETHER) {
                            put(row * columns + column, column * span + row * size);
                        }
                    }
                }
            }
            Permutation::Untranspose => {
                for column in 0..columns {
                    for row in 0..piece {
                        put(column * piece + row, column * span + row * size);
                    }
                }
            }
        }
    }
}

impl Stage<Column> for Permute<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let first = round.number() * self.shape.rows();
        let [out, ..] = round.auxiliary() else { return Ok(Flow::Convey) };
        let column = std::mem::take(&mut buffer.tag);
        let (bytes, space) = (&*buffer.space(), out.space());
        self.place(|nth, to| {
            let to = &mut space[to..to + self.then.size];
            if nth >= column.count {
                to[..self.then.index].fill(u8::MAX);
                to[self.then.index..].fill(0);
                return;
            }
            let at = column.nth(nth, self.form.size);
            let record = self.form.record(bytes, at);
            if self.form.index < self.then.index {
                self.then.carry(first + ((at - column.start) / self.form.size) as u64, record, to);
            } else {
                to.copy_from_slice(record);
            }
        });
        buffer.swap(out);
        buffer.set_len((self.shape.columns() * self.shape.span()) as usize);
        buffer.tag = column;
        Ok(Flow::Convey)
    }
}

/// What has come out of a sort.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// How many records.
    pub(crate) records: u64,
    /// How many bytes they are.
    pub(crate) bytes: u64,
}

/// Merges the lower half of each column with the upper half of the next: the end of the sort. What comes out is the output, from one aligned
/// place to another, but for its end.
pub(crate) struct Shift<'s> {
    shape: Shape,
    form: ColumnLayout<'s>,
    /// Where only the first of equal records is wanted, the sort that wants it.
    unique: Option<&'s Job<'s>>,
    /// How many records have been merged.
    merged: u64,
    /// The record before, where equal ones are not wanted.
    before: Option<Vec<u8>>,
    /// What comes after the last aligned place.
    rest: Vec<u8>,
    /// What has been passed on.
    written: &'s mut Written,
}

impl<'s> Shift<'s> {
    /// Merges columns of this form, and says what it has passed on. Where there is a sort that wants records to be `unique`, of equal ones only the first is kept.
    pub(crate) fn new(
        shape: Shape,
        form: ColumnLayout<'s>,
        unique: Option<&'s Job<'s>>,
        written: &'s mut Written,
    ) -> Shift<'s> {
        Shift { shape, form, unique, merged: 0, before: None, rest: Vec::new(), written }
    }
}

impl Stage<Column> for Shift<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let is_last = round.is_last();
        let [kept, out] = round.auxiliary() else { return Ok(Flow::Convey) };
        let half = (self.shape.rows() / 2) as usize;
        let (kept_column, column) = (std::mem::take(&mut kept.tag), std::mem::take(&mut buffer.tag));
        let length = {
            let (left, right) = (&*kept.space(), &*buffer.space());
            self.merge((left, &kept_column, half), (right, &column, half), out.space())
        };
        let passed = if is_last { length } else { length - length % ALIGNMENT };
        self.rest.clear();
        self.rest.extend_from_slice(&out.space()[passed..length]);
        // What came is kept, what was kept is filled the next time, and what was filled goes.
        buffer.swap(out);
        kept.swap(out);
        kept.tag = column;
        buffer.set_len(passed);
        buffer.tag = Column { place: self.written.bytes, ..kept_column };
        self.written.bytes += passed as u64;
        Ok(Flow::Convey)
    }
}

impl Shift<'_> {
    /// Merges what one column has from its `half` on with what another has up to that, until there are no more records, but only padding. Returns how many
    /// bytes came out, with what was left of the last time.
    fn merge(
        &mut self,
        (left_bytes, left, half): (&[u8], &Column, usize),
        (right_bytes, right, end): (&[u8], &Column, usize),
        out: &mut [u8],
    ) -> usize {
        let (size, record) = (self.form.size, self.shape.record());
        let (mut lefts, mut rights) = (half..left.count, 0..end.min(right.count));
        let mut to = self.rest.len();
        out[..to].copy_from_slice(&self.rest);
        while self.merged < self.shape.count() {
            let is_left = match (lefts.is_empty(), rights.is_empty()) {
                (true, true) => break,
                (true, false) => false,
                (false, true) => true,
                (false, false) if cfg!(rowlock_canary = "halves-are-not-merged") => true,
                (false, false) => {
                    let (left, right) = ((left_bytes, left, lefts.start), (right_bytes, right, rights.start));
                    self.form.compare_nth(left, right) != Ordering::Greater
                }
            };
            let (bytes, column, nths) =
                if is_left { (left_bytes, left, &mut lefts) } else { (right_bytes, right, &mut rights) };
            let from = &self.form.record(bytes, column.nth(nths.start, size))[self.form.index..];
            nths.start += 1;
            self.merged += 1;
            if self.skip_duplicate(from) {
                continue;
            }
            out[to..to + record].copy_from_slice(from);
            to += record;
            self.written.records += 1;
        }
        to
    }

    /// Whether a record is equal to the one before and so not wanted.
    fn skip_duplicate(&mut self, record: &[u8]) -> bool {
        let Some(job) = self.unique else { return false };
        let is_equal = |before: &Vec<u8>| job.order.compare(before, record) == Ordering::Equal;
        let is_duplicate = self.before.as_ref().is_some_and(is_equal);
        if is_duplicate {
            job.counts.add_dropped(record);
        } else {
            let before = self.before.get_or_insert_default();
            before.clear();
            before.extend_from_slice(record);
        }
        is_duplicate
    }
}
