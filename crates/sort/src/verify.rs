//! Verification: reads the output back and compares it with the counts of the input.

use pipeline::{Buffer, Flow, Pipeline, Program, RunReport, StageKind};

use crate::block_writer::Load;
use crate::budget::{Budget, PIECES};
use crate::chunk::text;
use crate::error::SortError;
use crate::job::{Job, check_size, run_program};
use crate::order::{Format, Order};
use crate::record_counts::checksum;

/// The number of pieces that are read at once.
const READERS: usize = 3;

/// Verifies an output of this many records and bytes.
pub(crate) fn verify(job: &Job<'_>, written: (u64, u64), budget: Budget) -> Result<RunReport, SortError> {
    let piece = budget.piece();
    let output = job.to.output;
    let mut check = Check::new(job.order, job.is_unique);
    let pipeline = Pipeline::tagged("verify")
        .buffers(PIECES, piece)
        .rounds(written.1.div_ceil(piece as u64).max(1))
        .forkable("read", StageKind::Io, |round: &mut pipeline::Round<'_, Load>, buffer: &mut Buffer<Load>| {
            check_size(buffer, piece)?;
            let place = round.number() * buffer.capacity() as u64;
            let read = output.read_at(place, buffer.space());
            let read = read.map_err(|why| SortError::Read { what: output.name().to_owned(), why })?;
            // The last block may have been padded.
            let read = read.min(usize::try_from(written.1.saturating_sub(place)).unwrap_or(read));
            buffer.set_len(read);
            job.to.progress.add_read(read);
            Ok(Flow::Convey)
        })
        .fork(READERS)
        .compute("check", |round, buffer: &mut Buffer<Load>| {
            check.add(buffer.filled())?;
            if round.is_last() {
                check.finish(job.counts.expected())?;
            }
            Ok(Flow::Convey)
        });
    job.to.progress.set_phase("verifying");
    run_program(Program::new("sort-verify").pipeline(pipeline), job.canceller)
}

/// The state of the check.
struct Check<'o> {
    order: &'o Order,
    /// Whether equal records are an error.
    is_unique: bool,
    /// The beginning of a record whose end has not been read yet.
    carry: Vec<u8>,
    last: Option<Vec<u8>>,
    records: u64,
    sum: u64,
}

impl<'o> Check<'o> {
    fn new(order: &'o Order, is_unique: bool) -> Check<'o> {
        Check { order, is_unique, carry: Vec::new(), last: None, records: 0, sum: 0 }
    }

    /// Checks the next bytes of the output.
    fn add(&mut self, mut bytes: &[u8]) -> Result<(), SortError> {
        loop {
            let end = match self.order.format() {
                Format::Fixed(size) => Some(size - self.carry.len()).filter(|&end| end <= bytes.len()),
                Format::Lines => memchr::memchr(b'\n', bytes).map(|end| end + 1),
            };
            let Some(end) = end else { break };
            let (record, rest) = bytes.split_at(end);
            bytes = rest;
            if self.carry.is_empty() {
                self.record(record)?;
            } else {
                let mut whole = std::mem::take(&mut self.carry);
                whole.extend_from_slice(record);
                self.record(&whole)?;
            }
        }
        self.carry.extend_from_slice(bytes);
        Ok(())
    }

    fn record(&mut self, record: &[u8]) -> Result<(), SortError> {
        let format = self.order.format();
        self.records += 1;
        self.sum = self.sum.wrapping_add(checksum(record));
        let last = self.last.get_or_insert_default();
        if self.records > 1 {
            let ordering = self.order.compare(text(last, format), text(record, format));
            if ordering.is_gt() || self.is_unique && ordering.is_eq() {
                return Err(SortError::Wrong(format!("record {} is out of order", self.records)));
            }
        }
        last.clear();
        last.extend_from_slice(record);
        Ok(())
    }

    /// Compares the totals with the expected number of records and checksum.
    fn finish(&self, (records, sum): (u64, u64)) -> Result<(), SortError> {
        if !self.carry.is_empty() {
            return Err(SortError::Wrong("it ends within a record".to_owned()));
        }
        if self.records != records {
            return Err(SortError::Wrong(format!("it has {} records instead of {records}", self.records)));
        }
        if self.sum != sum {
            return Err(SortError::Wrong("its records are not those of the input".to_owned()));
        }
        Ok(())
    }
}
