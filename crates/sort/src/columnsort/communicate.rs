//! The stages that send records of a sorted column to the ranks whose columns they are for.
//!
//! A single rank keeps its columns as they are, and has no auxiliary buffer here.

use pipeline::{Buffer, Flow, Round, Stage};

use crate::ranks::Kind;

use super::Pass;
use super::column::Column;
use super::permute::{Permutation, Permute};

/// The exchange of the first two passes: each rank deals its column to all ranks in equal parts,
/// and gets a part of the column of each, in the order of ranks, which is that of the columns. Then
/// the stage `permute` moves the records of each part to the columns of its rank.
pub(super) struct Deal<'s>(pub(super) Permute<'s>);

impl Stage<Column> for Deal<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let Permute { permutation, pass, then } = self.0;
        let [out] = &mut round.auxiliary else { return Ok(Flow::Convey) };
        let [columns, own, part] = [pass.shape.columns, pass.shape.own(), pass.shape.part()].map(|many| many as usize);
        let (rows, first) = (pass.shape.rows as usize, pass.first_index(round.number));
        let mut column = std::mem::take(&mut buffer.tag);
        let (bytes, packed) = (buffer.space(), &mut out.space()[..rows * then.size]);
        for (number, to) in packed.chunks_exact_mut(then.size).enumerate() {
            let (rank, number) = (number / part, number % part);
            let nth = match permutation {
                Permutation::Transpose => number / own * columns + rank * own + number % own,
                Permutation::Untranspose => rank * part + number,
            };
            pass.sorted.carry_nth((bytes, &column, nth), first, &then, to);
        }
        pass.sort.job.ranks.all_to_all(packed, &mut bytes[..packed.len()])?;
        column.become_ordered(rows);
        buffer.tag = column;
        Ok(Flow::Convey)
    }
}

/// The exchange of the last pass: each rank sends the upper half of its first column to the rank
/// before, which merges it with the lower half of its last column in an additional round.
pub(super) struct PassHalf<'s> {
    pub(super) pass: Pass<'s>,
    /// The half that the next rank has sent.
    pub(super) next: Vec<u8>,
}

impl Stage<Column> for PassHalf<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let Pass { sort, shape, sorted: form, .. } = self.pass;
        let [out] = &mut round.auxiliary else { return Ok(Flow::Convey) };
        if round.number == 0 {
            let column = std::mem::take(&mut buffer.tag);
            let (bytes, half) = (&*buffer.space(), &mut out.space()[..shape.half() as usize * form.size]);
            for (nth, to) in half.chunks_exact_mut(form.size).enumerate() {
                to.copy_from_slice(form.record(bytes, column.nth(nth, form.size)));
            }
            buffer.tag = column;
            self.next.try_reserve_exact(half.len())?;
            self.next.resize(half.len(), 0);
            let received = sort.job.ranks.pass_back(Kind::Half, half, &mut self.next)?;
            self.next.truncate(received);
        }
        if round.is_last {
            buffer.space()[..self.next.len()].copy_from_slice(&self.next);
            buffer.tag.become_ordered(self.next.len() / form.size);
        }
        Ok(Flow::Convey)
    }
}
