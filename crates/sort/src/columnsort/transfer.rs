//! The stages that read and write columns. Only the number of the round determines the bytes.

use pipeline::{Buffer, Flow, Round, Stage};

use crate::error::SortError;
use crate::file::ALIGNMENT;
use crate::file::input::Input;
use crate::file::output::Output;
use crate::file::spill::Spill;
use crate::job::check_size;

use super::Pass;
use super::column::Column;

/// A read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) stage: &'static str,
    pub(crate) place: u64,
    pub(crate) length: usize,
}

/// A callback for each transfer.
pub(crate) type TransferObserver<'s> = Option<&'s (dyn Fn(Transfer) + Sync)>;

impl Pass<'_> {
    fn observe(&self, stage: &'static str, place: u64, length: usize) {
        if let Some(observe) = self.sort.observer {
            observe(Transfer { stage, place, length });
        }
    }
}

/// The source of a pass.
#[derive(Clone, Copy)]
pub(crate) enum Source<'s> {
    Input(&'s Input),
    /// A copy of the input.
    Copy(&'s Spill),
    /// The columns written by the previous pass.
    Columns(&'s Spill),
}

/// The stage that reads one column a round, and nothing after the last one.
pub(super) struct Read<'s>(pub(super) Pass<'s>);

impl Read<'_> {
    /// The position, length and layout of the column of a round.
    fn column(&self, round: u64) -> (u64, usize, Column) {
        let Pass { source, shape, .. } = self.0;
        let (rows, columns, record) = (shape.rows, shape.columns, shape.record);
        if round >= shape.own() {
            return (0, 0, Column::default());
        }
        if let Source::Columns(_) = source {
            let length = columns * shape.span();
            return (round * length, length as usize, Column { count: rows as usize, ..Column::default() });
        }
        let (all, first) = (shape.count, self.0.first_index(round));
        let (first, end) = (first.min(all), (first + rows).min(all));
        let (begin, end) = (first * record as u64, end * record as u64);
        let start = begin % ALIGNMENT as u64;
        let length = (end - begin + start).next_multiple_of(ALIGNMENT as u64);
        let length = if begin == end { 0 } else { length as usize };
        let count = ((end - begin) / record as u64) as usize;
        (begin - start, length, Column { start: start as usize, count, ..Column::default() })
    }

    fn read(&self, place: u64, into: &mut [u8], needed: usize) -> Result<(), SortError> {
        if into.is_empty() {
            return Ok(());
        }
        self.0.observe("read", place, into.len());
        match self.0.source {
            Source::Input(input) => {
                let read = match input.read_at(place, into) {
                    Ok(read) if read < needed => Err(std::io::Error::other("it has become shorter")),
                    read => read,
                };
                read.map(drop).map_err(SortError::read(input.name()))
            }
            Source::Copy(spill) | Source::Columns(spill) => {
                spill.read_at(place, into).map_err(SortError::read(&self.0.sort.job.temporary))
            }
        }
    }
}

impl Stage<Column> for Read<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let (place, length, column) = self.column(round.number);
        let shape = self.0.shape;
        check_size(buffer, shape.buffer())?;
        buffer.set_len(length);
        let needed = column.start + column.count * shape.record;
        self.read(place, buffer.filled_mut(), needed)?;
        self.0.sort.job.progress.inc(length as u64 * shape.weight());
        // Reuses the memory of the entries.
        let entries = std::mem::take(&mut buffer.tag.entries);
        buffer.tag = Column { entries, ..column };
        Ok(Flow::Convey)
    }

    fn again(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<bool> {
        let (place, length, _) = self.column(round.number);
        self.read(place, &mut buffer.space()[..length], 0)?;
        Ok(true)
    }
}

/// The destination of a pass.
#[derive(Clone, Copy)]
pub(crate) enum Target<'s> {
    /// Each piece goes to its column.
    Pieces(&'s Spill),
    Output(&'s Output),
}

/// The stage that writes permuted columns.
pub(super) struct Write<'s>(pub(super) Pass<'s>);

impl Write<'_> {
    fn write(&self, round: &Round<'_, Column>, buffer: &Buffer<Column>) -> Result<(), SortError> {
        match self.0.target {
            Target::Pieces(spill) => {
                let (columns, own, span) = (self.0.shape.columns, self.0.shape.own(), self.0.shape.span());
                for (number, piece) in (0..columns).zip(buffer.filled().chunks_exact(span as usize)) {
                    if round.is_ending() {
                        break;
                    }
                    let (rank, column) = (number / own, number % own);
                    let place = (column * columns + rank * own + round.number) * span;
                    self.0.observe("write", place, piece.len());
                    let written = spill.write_at(place, piece);
                    written.map_err(SortError::write(&self.0.sort.job.temporary))?;
                }
                Ok(())
            }
            Target::Output(_) if buffer.is_empty() => Ok(()),
            Target::Output(output) => {
                self.0.observe("write", buffer.tag.place, buffer.len());
                output.write_at(buffer.tag.place, buffer.filled()).map_err(SortError::write(output.name()))
            }
        }
    }
}

impl Stage<Column> for Write<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let Pass { sort, shape, done, .. } = self.0;
        self.write(round, buffer)?;
        sort.job.progress.inc(buffer.len() as u64 * shape.weight());
        if let Some(spill) = done.filter(|_| round.number < shape.own()) {
            let length = shape.columns * shape.span();
            spill.free(round.number * length, length);
        }
        Ok(Flow::Convey)
    }

    fn again(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<bool> {
        // A pipe would get the data twice.
        if matches!(self.0.target, Target::Output(output) if !output.is_file()) {
            return Ok(false);
        }
        self.write(round, buffer)?;
        Ok(true)
    }
}
