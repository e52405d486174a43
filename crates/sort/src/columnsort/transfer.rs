//! The stages that read and write columns. Only the number of the round determines the bytes.

use pipeline::{Buffer, Flow, Round, Stage};

use crate::error::SortError;
use crate::file::ALIGNMENT;
use crate::file::input::Input;
use crate::file::output::Output;
use crate::file::spill::Spill;
use crate::job::{Job, check_size};

use super::column::Column;
use super::shape::Shape;

/// A read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The stage.
    pub(crate) stage: &'static str,
    /// The position of the first byte.
    pub(crate) place: u64,
    /// The number of bytes.
    pub(crate) length: usize,
}

/// A callback for each transfer.
pub(crate) type TransferObserver<'s> = Option<&'s (dyn Fn(Transfer) + Sync)>;

/// The source of a pass.
#[derive(Clone, Copy)]
pub(crate) enum Source<'s> {
    /// The input.
    Input(&'s Input),
    /// A copy of the input.
    Copy(&'s Spill),
    /// The columns written by the previous pass.
    Columns(&'s Spill),
}

/// The stage that reads one column a round, and nothing after the last one.
#[derive(Clone, Copy)]
pub(crate) struct Read<'s> {
    pub(crate) job: &'s Job<'s>,
    pub(crate) source: Source<'s>,
    pub(crate) shape: Shape,
    pub(crate) observer: TransferObserver<'s>,
}

impl Read<'_> {
    /// The position, length and layout of a column.
    fn column(&self, number: u64) -> (u64, usize, Column) {
        let (rows, columns, record) = (self.shape.rows(), self.shape.columns(), self.shape.record());
        if number >= columns {
            return (0, 0, Column::default());
        }
        if let Source::Columns(_) = self.source {
            let length = columns * self.shape.span();
            return (number * length, length as usize, Column { count: rows as usize, ..Column::default() });
        }
        let all = self.shape.count();
        let (first, end) = ((number * rows).min(all), ((number + 1) * rows).min(all));
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
        if let Some(tell) = self.observer {
            tell(Transfer { stage: "read", place, length: into.len() });
        }
        match self.source {
            Source::Input(input) => {
                let failed = |why| SortError::Read { what: input.name().to_owned(), why };
                match input.read_at(place, into).map_err(failed)? {
                    read if read < needed => Err(failed(std::io::Error::other("it has become shorter"))),
                    _ => Ok(()),
                }
            }
            Source::Copy(spill) | Source::Columns(spill) => {
                spill.read_at(place, into).map_err(|why| SortError::Read { what: self.job.to.temporary.name(), why })
            }
        }
    }
}

impl Stage<Column> for Read<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        let (place, length, column) = self.column(round.number());
        check_size(buffer, self.shape.buffer())?;
        buffer.set_len(length);
        let needed = column.start + column.count * self.shape.record();
        self.read(place, buffer.filled_mut(), needed)?;
        self.job.to.progress.add_read(length * self.shape.weight());
        // Reuses the memory of the entries.
        let entries = std::mem::take(&mut buffer.tag.entries);
        buffer.tag = Column { entries, ..column };
        Ok(Flow::Convey)
    }

    fn again(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<bool> {
        let (place, length, _) = self.column(round.number());
        self.read(place, &mut buffer.space()[..length], 0)?;
        Ok(true)
    }
}

/// The destination of a pass.
#[derive(Clone, Copy)]
pub(crate) enum Target<'s> {
    /// The destination column of each piece.
    Pieces(&'s Spill),
    /// The output.
    Output(&'s Output),
}

/// The stage that writes permuted columns.
#[derive(Clone, Copy)]
pub(crate) struct Write<'s> {
    pub(crate) job: &'s Job<'s>,
    pub(crate) target: Target<'s>,
    /// The columns of the previous pass, whose space is freed once they have been read.
    pub(crate) done: Option<&'s Spill>,
    pub(crate) shape: Shape,
    pub(crate) observer: TransferObserver<'s>,
}

impl Write<'_> {
    fn write(&self, round: &Round<'_, Column>, buffer: &Buffer<Column>) -> Result<(), SortError> {
        let tell =
            |place, length| self.observer.into_iter().for_each(|tell| tell(Transfer { stage: "write", place, length }));
        match self.target {
            Target::Pieces(spill) => {
                let (columns, span) = (self.shape.columns(), self.shape.span());
                for (column, piece) in (0..columns).zip(buffer.filled().chunks_exact(span as usize)) {
                    if round.is_ending() {
                        break;
                    }
                    let place = (column * columns + round.number()) * span;
                    tell(place, piece.len());
                    let written = spill.write_at(place, piece);
                    written.map_err(|why| SortError::Write { what: self.job.to.temporary.name(), why })?;
                }
                Ok(())
            }
            Target::Output(_) if buffer.is_empty() => Ok(()),
            Target::Output(output) => {
                tell(buffer.tag.place, buffer.len());
                let failed = |why| SortError::Write { what: output.name().to_owned(), why };
                output.write_at(buffer.tag.place, buffer.filled()).map_err(failed)
            }
        }
    }
}

impl Stage<Column> for Write<'_> {
    fn process(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<Flow> {
        self.write(round, buffer)?;
        self.job.to.progress.add_written(buffer.len() * self.shape.weight());
        if let Some(spill) = self.done.filter(|_| round.number() < self.shape.columns()) {
            let length = self.shape.columns() * self.shape.span();
            spill.free(round.number() * length, length);
        }
        Ok(Flow::Convey)
    }

    fn again(&mut self, round: &mut Round<'_, Column>, buffer: &mut Buffer<Column>) -> pipeline::Result<bool> {
        // A pipe would get the data twice.
        if matches!(self.target, Target::Output(output) if !output.is_file()) {
            return Ok(false);
        }
        self.write(round, buffer)?;
        Ok(true)
    }
}
