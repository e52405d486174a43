//! The stages that move the records of a sorted column to their destinations.

use std::cmp::Ordering;

use pipeline::{Buffer, Flow, Round, Stage};

use crate::file::ALIGNMENT;
use crate::job::Job;

use super::column::{Column, ColumnLayout};
use super::shape::Shape;

/// How the records of a column are distributed to columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permutation {
    /// One record to each column in turn: reads the matrix by columns and writes it by rows.
    Transpose,
    /// The first records to the first column, the next ones to the next: reads the matrix by rows
    /// and writes it by columns.
    Untranspose,
}

/// Permutes the records of a column into pieces, one for each column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permute<'s> {
    pub(crate) permutation: Permutation,
    pub(crate) shape: Shape,
    /// The layout of the incoming column. If it has no indices, the permutation adds them.
    pub(crate) form: ColumnLayout<'s>,
    /// The layout of the outgoing column.
    pub(crate) then: ColumnLayout<'s>,
}

/// The number of records written to a piece before the next piece. Pieces are some pages apart and
/// share a few sets of the processor's cache, so whole cache lines should be written.
const TOGETHER: usize = 16;

impl Permute<'_> {
    /// Calls `put` for each record with its rank in the order and its destination.
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

/// The size of the output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// The number of records.
    pub(crate) records: u64,
    /// The number of bytes.
    pub(crate) bytes: u64,
}

/// Merges the lower half of each column with the upper half of the next, the last step of the sort.
/// Produces the output in parts that begin and end at aligned positions, except for its end.
pub(crate) struct Shift<'s> {
    shape: Shape,
    form: ColumnLayout<'s>,
    /// The job if only the first of equal records is kept.
    unique: Option<&'s Job<'s>>,
    /// The number of records merged.
    merged: u64,
    /// The previous record, to detect duplicates.
    before: Option<Vec<u8>>,
    /// The bytes after the last aligned position.
    rest: Vec<u8>,
    /// The size of the output so far.
    written: &'s mut Written,
}

impl<'s> Shift<'s> {
    /// Creates the stage for columns of this layout. It counts its output in `written`. If there is
    /// a `unique` job, it keeps only the first of equal records.
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
        // The incoming buffer is kept, the kept one is filled next time, and the filled one is sent
        // on.
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
    /// Merges the records of one column from `half` on with those of another up to `end`, until
    /// only padding is left. Returns the length of the output, including what was left over from
    /// the previous round.
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

    /// Whether a record equals the previous one. Counts it as dropped in that case, and remembers
    /// it otherwise.
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
