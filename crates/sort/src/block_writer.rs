//! Collects sorted records into blocks and sends them to the stage `write`.

use std::ops::Range;

use pipeline::{Buffer, Flow, Pipeline, PortError, Ports, Round, StageKind};

use crate::algorithm::Written;
use crate::budget::{PIECES, aligned_up};
use crate::chunk::{Chunk, text};
use crate::error::SortError;
use crate::forecast::{Block, Run};
use crate::job::Job;

/// The pipeline of blocks for the stage `write`.
const OUTPUT: &str = "output";

/// The number of blocks that are written at once.
const WRITERS: usize = 3;

/// The tag of a buffer.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) chunk: Chunk,
    /// The average record length by which the memory is divided; 0 before that.
    pub(crate) mean: usize,
    /// The position of the bytes in the output or the temporary file.
    pub(crate) place: u64,
    pub(crate) is_spilled: bool,
}

/// The pipeline of blocks of this size from a junction to the stage `write`.
pub(crate) fn write_blocks<'p>(job: &'p Job<'_>, junction: &str, block: usize, is_spilled: bool) -> Pipeline<'p, Load> {
    let writers = if is_spilled || job.output.is_file() { WRITERS } else { 1 };
    Pipeline::tagged(OUTPUT)
        .buffers(PIECES - 1, block)
        .join_at(junction)
        .forkable("write", StageKind::Io, |_: &mut Round<'_, Load>, buffer: &mut Buffer<Load>| {
            write(job, buffer)?;
            Ok(Flow::Convey)
        })
        .fork(writers)
        .unordered()
}

/// Writes a buffer to the destination in its tag.
fn write(job: &Job<'_>, buffer: &mut Buffer<Load>) -> Result<(), SortError> {
    let (place, length) = (buffer.tag.place, buffer.len());
    if buffer.tag.is_spilled {
        let written = job.temporary.spill()?.write_at(place, &buffer.space()[..aligned_up(length)]);
        written.map_err(SortError::write(&job.temporary))
    } else {
        job.output.write_at(place, buffer.filled()).map_err(SortError::write(job.output.name()))?;
        job.progress.inc(length as u64);
        Ok(())
    }
}

/// Collects records, either contiguously into the output, or as blocks of whole records into a run.
pub(crate) struct BlockWriter<'s> {
    job: &'s Job<'s>,
    is_spilled: bool,
    block: Buffer<Load>,
    /// The last record in the block.
    last: Range<usize>,
    /// The number of bytes sent to the output.
    sent: u64,
    records: u64,
    run: Run,
    /// The size limit for records in the temporary file.
    largest_record: usize,
}

impl<'s> BlockWriter<'s> {
    /// Creates a writer. `block` is the size of the buffers of [`write_blocks`].
    pub(crate) fn new(
        job: &'s Job<'s>,
        is_spilled: bool,
        block: usize,
        largest_record: usize,
    ) -> Result<Self, SortError> {
        if is_spilled {
            job.temporary.spill()?;
        }
        let block = Buffer::new(block).map_err(|why| SortError::Allocation(why.to_string()))?;
        let (run, last) = (Run::default(), 0..0);
        Ok(BlockWriter { job, is_spilled, block, last, sent: 0, records: 0, run, largest_record })
    }

    /// Appends a record with its line feed.
    #[inline]
    pub(crate) fn push(&mut self, record: &[u8], ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        let (from, to) = (self.block.len(), self.block.len() + record.len());
        if to > self.block.capacity() {
            return self.push_large(record, ports);
        }
        self.block.space()[from..to].copy_from_slice(record);
        self.block.set_len(to);
        self.last = from..to;
        self.records += 1;
        Ok(())
    }

    /// Appends a record that does not fit into the rest of the block.
    #[cold]
    fn push_large(&mut self, record: &[u8], ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        if self.is_spilled {
            self.send_block(Flow::Convey, ports)?;
            if record.len() <= self.block.capacity() {
                return self.push(record, ports);
            }
            self.records += 1;
            return self.spill_alone(record);
        }
        let mut rest = record;
        while !rest.is_empty() {
            let from = self.block.len();
            let fits = rest.len().min(self.block.capacity() - from);
            self.block.space()[from..from + fits].copy_from_slice(&rest[..fits]);
            self.block.set_len(from + fits);
            rest = &rest[fits..];
            if !rest.is_empty() {
                self.send_block(Flow::Convey, ports)?;
            }
        }
        self.records += 1;
        Ok(())
    }

    /// Writes a record that is larger than a block as a block of its own. This is rare, so it need
    /// not overlap with other work.
    fn spill_alone(&mut self, record: &[u8]) -> pipeline::Result<()> {
        if record.len() > self.largest_record {
            let most = self.largest_record as u64;
            return Err(SortError::TooLong { what: "the input".to_owned(), length: record.len() as u64, most }.into());
        }
        let mut alone: Buffer<Load> = Buffer::new(aligned_up(record.len()))?;
        alone.space()[..record.len()].copy_from_slice(record);
        alone.set_len(record.len());
        alone.tag = Load { place: self.job.temporary.allocate(record.len()), is_spilled: true, ..Load::default() };
        let last = text(record, self.job.order.format());
        self.run.push(Block::new(alone.tag.place, record.len(), last, self.job.order))?;
        Ok(write(self.job, &mut alone)?)
    }

    /// Sends the current block and continues with an empty one.
    fn send_block(&mut self, flow: Flow, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        if self.block.is_empty() && flow == Flow::Convey {
            return Ok(());
        }
        let length = self.block.len();
        let place = if self.is_spilled { self.job.temporary.allocate(length) } else { self.sent };
        if self.is_spilled && length > 0 {
            let last = text(&self.block.filled()[self.last.clone()], self.job.order.format());
            self.run.push(Block::new(place, length, last, self.job.order))?;
        }
        ports.accept(OUTPUT)?.ok_or(PortError::Ending)?;
        let buffer = ports.buffer(OUTPUT)?;
        buffer.swap(&mut self.block);
        (buffer.tag.place, buffer.tag.is_spilled) = (place, self.is_spilled);
        self.block.clear();
        self.last = 0..0;
        self.sent += length as u64;
        ports.convey(OUTPUT, if length == 0 { Flow::End } else { flow })?;
        Ok(())
    }

    pub(crate) fn end_run(&mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<Run> {
        self.send_block(Flow::Convey, ports)?;
        Ok(std::mem::take(&mut self.run))
    }

    /// Sends the last block. Returns the run that was not ended, and what was sent to the output.
    pub(crate) fn finish(mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<(Run, Written)> {
        self.send_block(Flow::Last, ports)?;
        let written = Written { records: self.records, bytes: self.sent };
        Ok((self.run, if self.is_spilled { Written::default() } else { written }))
    }
}
