//! Merges runs: reads blocks in the predicted order, merges their records, and writes the result,
//! all at the same time.
//!
//! Two pipelines meet in the junction `merge`: blocks come from `read`, and pieces go to `write`.
//! The junction holds one block of each run. When its last record has been merged, the next block
//! to arrive is normally the one needed, since blocks are read as [forecast](crate::forecast). A
//! truncated key can make the forecast wrong. Then the junction holds the block that arrived until
//! its run needs it, and reads the needed blocks directly. A block that is predicted after it was
//! needed is skipped.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};

use pipeline::{Buffer, Flow, Pipeline, Ports, Program, Round, StageKind};

use crate::algorithm::{Sorted, Written};
use crate::block_writer::{BlockWriter, Load, write_blocks};
use crate::budget::{Budget, PIECES, aligned_up};
use crate::chunk::text;
use crate::error::SortError;
use crate::forecast::{Run, forecast};
use crate::job::{Job, LastRecord, check_size};
use crate::order::{FREE_BITS, Format, Order};
use crate::tournament::{OVER, Tournament};

/// The pipeline of blocks of runs.
const RUNS: &str = "runs";

/// The number of blocks that are read at once.
const READERS: usize = 4;

/// Merges all runs into the output, at once unless their blocks do not fit into memory. Adds the
/// result to `sorted`.
pub(crate) fn merge(job: &Job<'_>, mut runs: Vec<Run>, budget: Budget, sorted: &mut Sorted) -> Result<(), SortError> {
    sorted.passes = 1;
    // The position among the runs in the current pass.
    let mut at = 0;
    loop {
        let largest = runs.iter().map(Run::largest_block).max().unwrap_or(0);
        let fan_in = budget.fan_in(largest);
        if runs.len() <= fan_in {
            job.progress.set_message("merging");
            merge_group(job, &runs, budget, false, sorted)?;
            return Ok(());
        }
        sorted.passes += u32::from(at == 0);
        job.progress.set_message("merging some");
        let end = runs.len().min(at + group(runs.len(), fan_in));
        let run = merge_group(job, &runs[at..end], budget, true, sorted)?;
        runs.splice(at..end, [run]);
        at = if at + 2 < runs.len() { at + 1 } else { 0 };
    }
}

/// The number of adjacent runs to merge first if there are too many to merge at once: as few as
/// suffice.
fn group(runs: usize, fan_in: usize) -> usize {
    fan_in.min(runs - fan_in + 1)
}

/// Merges these runs into the output or into another run.
fn merge_group(
    job: &Job<'_>,
    runs: &[Run],
    budget: Budget,
    is_spilled: bool,
    sorted: &mut Sorted,
) -> Result<Run, SortError> {
    let largest = runs.iter().map(Run::largest_block).max().unwrap_or(0);
    let merging = budget.merging(runs.len(), largest);
    let piece = if is_spilled { merging.block.min(merging.piece * PIECES / 2) } else { merging.piece };
    let blocks = forecast(runs)?;
    let mut run = Run::default();
    let mut read_directly: Vec<AtomicUsize> = Vec::new();
    read_directly.try_reserve_exact(runs.len()).map_err(SortError::from)?;
    read_directly.resize_with(runs.len(), AtomicUsize::default);
    let read = Pipeline::tagged(RUNS)
        .buffers(merging.ahead.min(blocks.len()).max(1), merging.block)
        .rounds(blocks.len() as u64)
        .forkable("read", StageKind::Io, |round: &mut Round<'_, Load>, buffer: &mut Buffer<Load>| {
            check_size(buffer, merging.block)?;
            let (run, block) = blocks[round.number as usize];
            let was_read_directly = || block < read_directly[run].load(Acquire);
            if was_read_directly() {
                return Ok(Flow::Convey);
            }
            match read_block(job, &runs[run], block, buffer) {
                // The junction read the block directly and freed it during this read.
                Err(_) if was_read_directly() => Ok(Flow::Convey),
                read => Ok(read?),
            }
        })
        .fork(READERS)
        .join_at("merge");
    let write = write_blocks(job, "merge", piece, is_spilled);
    let program = Program::new("sort-merge").pipeline(read).pipeline(write).junction("merge", |ports| {
        let writer = BlockWriter::new(job, is_spilled, piece, budget.largest_record())?;
        let merge = Merge { job, runs, blocks: &blocks, read_directly: &read_directly, heads: Vec::new(), held: None };
        (run, sorted.written) = merge.run(ports, writer, merging.block)?;
        Ok(())
    });
    let report = job.run(program)?;
    sorted.reports.push(report);
    Ok(run)
}

fn read_block(job: &Job<'_>, run: &Run, block: usize, buffer: &mut Buffer<Load>) -> Result<Flow, SortError> {
    let block = &run.blocks[block];
    let read = job.temporary.spill()?.read_at(block.place, &mut buffer.space()[..aligned_up(block.length)]);
    read.map_err(SortError::read(&job.temporary))?;
    buffer.set_len(block.length);
    Ok(Flow::Convey)
}

/// The first records of a run that have not been merged.
struct Head {
    buffer: Buffer<Load>,
    /// The start of the first record.
    at: usize,
    /// The end of the first record.
    end: usize,
    /// The number of blocks used so far.
    blocks: usize,
}

impl Head {
    /// The first record, with its line feed.
    #[inline]
    fn record(&self) -> &[u8] {
        &self.buffer.filled()[self.at..self.end]
    }

    /// Advances to the next record. Returns `false` at the end of the block.
    #[inline]
    fn advance(&mut self, format: Format) -> bool {
        self.at = self.end;
        let rest = &self.buffer.filled()[self.at..];
        if rest.is_empty() {
            return false;
        }
        self.end += match format {
            Format::Fixed(size) => size,
            Format::Lines => memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1),
        };
        true
    }
}

/// The state of the junction `merge`.
struct Merge<'m> {
    job: &'m Job<'m>,
    runs: &'m [Run],
    blocks: &'m [(usize, usize)],
    /// For each run, the number of its first blocks that need not be read ahead, because the
    /// junction has read them directly. They may have been freed.
    read_directly: &'m [AtomicUsize],
    heads: Vec<Head>,
    /// The block that arrived before it was needed: its run, and its number in the run.
    held: Option<(usize, usize)>,
}

impl Merge<'_> {
    fn run(
        mut self,
        ports: &mut Ports<'_, '_, Load>,
        mut writer: BlockWriter<'_>,
        block: usize,
    ) -> pipeline::Result<(Run, Written)> {
        let order = self.job.order;
        let format = order.format();
        let mut keys = Vec::new();
        self.heads.try_reserve_exact(self.runs.len())?;
        keys.try_reserve_exact(self.runs.len())?;
        for run in 0..self.runs.len() {
            self.heads.push(Head { buffer: Buffer::new(block)?, at: 0, end: 0, blocks: 0 });
            keys.push(self.next_block(run, ports)?);
        }
        let mut tournament = Tournament::new(&keys, |left, right| is_before(order, &self.heads, left, right))?;
        let mut last = LastRecord::default();
        while let (key, run) = tournament.winner()
            && key != OVER
        {
            let record = self.heads[run].record();
            if !self.job.is_unique || !last.drop_duplicate(self.job, key, record)? {
                writer.push(record, ports)?;
            }
            let key = match self.heads[run].advance(format) {
                true => key_of(order, &self.heads[run], run),
                false => self.next_block(run, ports)?,
            };
            tournament.replace_winner(key, |left, right| is_before(order, &self.heads, left, right));
        }
        // Blocks that arrived after they were needed.
        if self.held.take().is_some() {
            ports.convey(RUNS, Flow::Convey)?;
        }
        while ports.accept(RUNS)?.is_some() {
            ports.convey(RUNS, Flow::Convey)?;
        }
        writer.finish(ports)
    }

    /// Advances to the next block of a run, and returns the key of its first record.
    fn next_block(&mut self, run: usize, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<u128> {
        let wanted = (run, self.heads[run].blocks);
        if let Some(before) = wanted.1.checked_sub(1) {
            let done = &self.runs[run].blocks[before];
            self.job.temporary.spill()?.free(done.place, aligned_up(done.length) as u64);
        }
        if wanted.1 == self.runs[run].blocks.len() {
            return Ok(OVER);
        }
        self.fetch(wanted, ports)?;
        let head = &mut self.heads[run];
        (head.at, head.end, head.blocks) = (0, 0, wanted.1 + 1);
        head.advance(self.job.order.format());
        Ok(key_of(self.job.order, &self.heads[run], run))
    }

    /// Fetches this block into the head of its run.
    fn fetch(&mut self, wanted: (usize, usize), ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        while self.held.is_none() {
            let Some(accepted) = ports.accept(RUNS)? else { break };
            let (run, block) = self.blocks[accepted.number as usize];
            if block < self.heads.get(run).map_or(0, |head| head.blocks) {
                ports.convey(RUNS, Flow::Convey)?;
            } else {
                self.held = Some((run, block));
            }
        }
        let buffer = &mut self.heads[wanted.0].buffer;
        if self.held == Some(wanted) {
            ports.buffer(RUNS)?.swap(buffer);
            ports.convey(RUNS, Flow::Convey)?;
            self.held = None;
        } else {
            self.read_directly[wanted.0].store(wanted.1 + 1, Release);
            read_block(self.job, &self.runs[wanted.0], wanted.1, buffer)?;
        }
        Ok(())
    }
}

/// The key of a run's first record: its prefix and the run's index. Of equal records, that of the
/// first run comes first.
#[inline]
fn key_of(order: &Order, head: &Head, run: usize) -> u128 {
    order.prefix(text(head.record(), order.format())) | run as u128
}

/// Compares the first records of two runs.
#[inline]
fn is_before(order: &Order, heads: &[Head], left: u128, right: u128) -> bool {
    if left >> FREE_BITS != right >> FREE_BITS || order.is_decided_by_prefix() {
        return left < right;
    }
    let [first, second] = [left, right].map(|key| text(heads[key as u32 as usize].record(), order.format()));
    let earlier = match cfg!(rowlock_canary = "equal-records-change-places") {
        true => right.cmp(&left),
        false => left.cmp(&right),
    };
    order.compare(first, second).then(earlier).is_lt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::group;

    proptest! {
        #[test]
        fn groups_minimize_the_work_before_the_final_merge(runs in 3usize..3000, fan_in in 2usize..100) {
            prop_assume!(runs > fan_in);
            let group = group(runs, fan_in);
            prop_assert!((2..=fan_in).contains(&group));
            // One pass over part of the runs suffices if that is possible at all.
            prop_assert!(group == fan_in || runs - group + 1 == fan_in);
        }
    }
}
