//! Verification: reads the output back and compares it with the counts of the input.

use pipeline::{Buffer, Flow, Pipeline, Program, Round, RunReport, StageKind};

use crate::algorithm::Written;
use crate::block_writer::Load;
use crate::budget::{Budget, PIECES};
use crate::chunk::text;
use crate::error::SortError;
use crate::job::{Job, check_size};
use crate::order::{Format, Order};
use crate::record_counts::checksum;

/// The number of pieces that are read at once.
const READERS: usize = 3;

/// Verifies an output of this size.
pub(crate) fn verify(job: &Job<'_>, written: Written, budget: Budget) -> Result<RunReport, SortError> {
    let (piece, output) = (budget.piece(), &job.output);
    let (order, is_unique) = (job.order, job.is_unique);
    let mut check = Check { order, is_unique, carry: Vec::new(), last: Vec::new(), records: 0, sum: 0 };
    let pipeline = Pipeline::tagged("verify")
        .buffers(PIECES, piece)
        .rounds(written.bytes.div_ceil(piece as u64).max(1))
        .forkable("read", StageKind::Io, |round: &mut Round<'_, Load>, buffer: &mut Buffer<Load>| {
            check_size(buffer, piece)?;
            let place = round.number * buffer.capacity() as u64;
            let read = output.read_at(place, buffer.space()).map_err(SortError::read(output.name()))?;
            // The last block may have been padded.
            let read = read.min(usize::try_from(written.bytes.saturating_sub(place)).unwrap_or(read));
            buffer.set_len(read);
            job.progress.inc(read as u64);
            Ok(Flow::Convey)
        })
        .fork(READERS)
        .compute("check", |round, buffer: &mut Buffer<Load>| {
            check.add(buffer.filled())?;
            if round.is_last {
                check.finish(job.counts.expected())?;
            }
            Ok(Flow::Convey)
        });
    job.progress.set_message("verifying");
    job.run(Program::new("sort-verify").pipeline(pipeline))
}

struct Check<'o> {
    order: &'o Order,
    /// Whether equal records are an error.
    is_unique: bool,
    /// The beginning of a record whose end has not been read yet.
    carry: Vec<u8>,
    last: Vec<u8>,
    records: u64,
    sum: u64,
}

impl Check<'_> {
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
                whole.try_reserve(record.len())?;
                whole.extend_from_slice(record);
                self.record(&whole)?;
            }
        }
        self.carry.try_reserve(bytes.len())?;
        self.carry.extend_from_slice(bytes);
        Ok(())
    }

    fn record(&mut self, record: &[u8]) -> Result<(), SortError> {
        let format = self.order.format();
        self.records += 1;
        self.sum = self.sum.wrapping_add(checksum(record));
        if self.records > 1 {
            let ordering = self.order.compare(text(&self.last, format), text(record, format));
            if ordering.is_gt() || self.is_unique && ordering.is_eq() {
                return Err(SortError::Wrong(format!("record {} is out of order", self.records)));
            }
        }
        self.last.clear();
        self.last.try_reserve(record.len())?;
        self.last.extend_from_slice(record);
        Ok(())
    }

    /// Compares the totals with the expected number of records and checksum.
    fn finish(&self, (records, sum): (u64, u64)) -> Result<(), SortError> {
        let problem = match () {
            () if !self.carry.is_empty() => "it ends within a record".to_owned(),
            () if self.records != records => format!("it has {} records instead of {records}", self.records),
            () if self.sum != sum => "its records are not those of the input".to_owned(),
            () => return Ok(()),
        };
        Err(SortError::Wrong(problem))
    }
}
