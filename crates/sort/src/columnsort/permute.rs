//! The stages that move the records of a sorted column to their destinations.

use std::cmp::Ordering;

use pipeline::{Buffer, Flow, Round, Stage};

use crate::algorithm::Written;
use crate::error::SortError;
use crate::file::ALIGNMENT;
use crate::job::LastRecord;
use crate::ranks::Kind;

use super::Pass;
use super::column::{Column, ColumnLayout};

/// How the records of a column are distributed to columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permutation {
    /// One record to each column in turn: reads the matrix by columns and writes it by rows.
    Transpose,
    /// The first records to the first column, the next ones to the next: reads the matrix by rows
    /// and writes it by columns.
    Untranspose,
}

/// Permutes the records of a column into pieces: of the part from each rank, one for each column of
/// this rank.
#[derive(Clone, Copy)]
pub(super) struct Permute<'s> {
    pub(super) permutation: Permutation,
    pub(super) pass: Pass<'s>,
    /// The layout of the outgoing column. If the sorted column has no indices, the permutation adds
    /// them.
    pub(super) then: ColumnLayout<'s>,
}

/// The number of records written to a piece before the next piece. Pieces are some pages apart and
/// share a few sets of the processor's cache, so whole cache lines should be written.
const TOGETHER: usize = 16;

impl Permute<'_> {
    /// Calls `put` for each record of a part with its place in the order and its destination.
    fn place(&self, mut put: impl FnMut(usize, usize)) {
        let shape = self.pass.shape;
        let (columns, piece) = (shape.own() as usize, shape.piece() as usize);
        let (span, size) = (shape.span() as usize, self.then.size);
        // The distances in the order from one row to the next and from one column to the next.
        let (from_row, from_column, together) = match self.permutation {
            Permutation::Transpose => (columns, 1, TOGETHER),
            Permutation::Untranspose => (1, piece, piece),
        };
        for first in (0..piece).step_by(together) {
            for column in 0..columns {
                for row in first..piece.min(first + together) {
                    put(row * from_row + column * from_column, column * span + row * size);
                }
            }
        }
    }
}

impl Stage<Column> for Permute<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let Pass { shape, sorted, .. } = self.pass;
        // Parts from other ranks have indices.
        let form = if shape.ranks == 1 { sorted } else { self.then };
        let first = self.pass.first_index(round.number);
        let [out, ..] = round.auxiliary else { return Ok(Flow::Convey) };
        let column = std::mem::take(&mut buffer.tag);
        let (bytes, space) = (&*buffer.space(), out.space());
        for rank in 0..shape.ranks {
            let (before, begin) = ((rank * shape.part()) as usize, (rank * shape.own() * shape.span()) as usize);
            self.place(|nth, to| {
                let to = &mut space[begin + to..][..self.then.size];
                form.carry_nth((bytes, &column, before + nth), first, &self.then, to);
            });
        }
        buffer.swap(out);
        buffer.set_len((shape.columns * shape.span()) as usize);
        buffer.tag = column;
        Ok(Flow::Convey)
    }
}

/// Merges the lower half of each column with the upper half of the next, the last step of the sort.
/// Produces the output in parts that begin and end at aligned positions, except for its end.
///
/// Parts of neighbouring ranks meet within a page. It is written by the rank before, to which the
/// other one sends its bytes. A column has more bytes than a page then, so that they are all
/// in the first output.
pub(super) struct Shift<'s> {
    pass: Pass<'s>,
    /// The number of records in the output so far, those of the ranks before included.
    merged: u64,
    last: LastRecord,
    /// The bytes after the last aligned position.
    rest: Vec<u8>,
    /// The number of bytes that the rank before has yet to get.
    head: usize,
    /// The position of the next output.
    place: u64,
    written: &'s mut Written,
}

impl<'s> Shift<'s> {
    /// Creates the stage, which counts its output in `written`.
    pub(super) fn new(pass: Pass<'s>, written: &'s mut Written) -> Shift<'s> {
        let (begin, head) = pass.shape.head(pass.sort.job.ranks.number());
        Shift {
            pass,
            merged: begin / pass.shape.record as u64,
            last: LastRecord::default(),
            rest: Vec::new(),
            head,
            place: begin + head as u64,
            written,
        }
    }

    /// Merges the records of one column from `half` on with those of another up to `end`, until
    /// only padding is left. Returns the length of the output, including what was left over from
    /// the previous round.
    fn merge(
        &mut self,
        (left_bytes, left, half): (&[u8], &Column, usize),
        (right_bytes, right, end): (&[u8], &Column, usize),
        out: &mut [u8],
    ) -> Result<usize, SortError> {
        let Pass { sort, shape, sorted: form, .. } = self.pass;
        let (size, record) = (form.size, shape.record);
        let (mut lefts, mut rights) = (half..left.count, 0..end.min(right.count));
        let mut to = self.rest.len();
        out[..to].copy_from_slice(&self.rest);
        while self.merged < shape.count {
            let is_left = match (lefts.is_empty(), rights.is_empty()) {
                (true, true) => break,
                (true, false) => false,
                (false, true) => true,
                (false, false) if cfg!(rowlock_canary = "halves-are-not-merged") => true,
                (false, false) => {
                    let (left, right) = ((left_bytes, left, lefts.start), (right_bytes, right, rights.start));
                    form.compare_nth(left, right) != Ordering::Greater
                }
            };
            let (bytes, column, nths) =
                if is_left { (left_bytes, left, &mut lefts) } else { (right_bytes, right, &mut rights) };
            let from = &form.record(bytes, column.nth(nths.start, size))[form.index..];
            nths.start += 1;
            self.merged += 1;
            if sort.job.is_unique && self.last.drop_duplicate(sort.job, sort.job.order.prefix(from), from)? {
                continue;
            }
            out[to..to + record].copy_from_slice(from);
            to += record;
            self.written.records += 1;
        }
        Ok(to)
    }
}

impl Stage<Column> for Shift<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let is_last = round.is_last;
        let [kept, out] = round.auxiliary else { return Ok(Flow::Convey) };
        let Pass { sort, shape, .. } = self.pass;
        let (ranks, half) = (sort.job.ranks, shape.half() as usize);
        // The rank before merges the upper half of the first column.
        let end = if round.number > 0 || ranks.is_first() { half } else { 0 };
        let (kept_column, column) = (std::mem::take(&mut kept.tag), std::mem::take(&mut buffer.tag));
        let mut length = self.merge((kept.space(), &kept_column, half), (buffer.space(), &column, end), out.space())?;
        if self.head > 0 && length > 0 {
            ranks.send_back(Kind::Head, &out.space()[..self.head])?;
            out.space().copy_within(self.head..length, 0);
            length -= std::mem::take(&mut self.head);
        }
        if is_last && let (_, head @ 1..) = shape.head(ranks.number() + 1) {
            length += ranks.receive_back(Kind::Head, &mut out.space()[length..][..head])?;
        }
        let passed = if is_last { length } else { length - length % ALIGNMENT };
        self.rest.clear();
        self.rest.extend_from_slice(&out.space()[passed..length]);
        // The incoming buffer is kept, the kept one is filled next time, and the filled one is sent
        // on.
        buffer.swap(out);
        kept.swap(out);
        kept.tag = column;
        buffer.set_len(passed);
        buffer.tag = Column { place: self.place, ..kept_column };
        self.place += passed as u64;
        self.written.bytes += passed as u64;
        Ok(Flow::Convey)
    }
}
