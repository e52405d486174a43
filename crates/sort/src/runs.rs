//! Forms runs: reads as many records as fit into memory, sorts them and writes them to the
//! temporary file, while the next ones are read.
//!
//! Three pipelines meet. Pieces of the input go from `read` to the junction `cut`, which combines
//! them into loads of whole records. These go through `sort` to the junction `gather`, which
//! collects their records into blocks in order. The blocks go to `write`. A single load goes
//! directly to the output.

use pipeline::{Buffer, Flow, Pipeline, Ports, Program, Round, StageKind};

use crate::algorithm::{Sorted, Written};
use crate::block_writer::{BlockWriter, Load, write_blocks};
use crate::budget::{self, Budget, PIECES};
use crate::chunk::Chunk;
use crate::entries;
use crate::error::SortError;
use crate::file::input::Input;
use crate::forecast::Run;
use crate::job::{Job, check_size};
use crate::order::Format;
use crate::split::{INPUT, LOADS, Splitter};

/// The number of pieces that are read at once.
const READERS: usize = 4;

/// The error for records of this size, which cannot be merged with this much memory.
fn too_large(given: u64, input: &Input, size: usize) -> SortError {
    match (input.length().map(|length| length % size as u64), budget::for_records(size as u64)) {
        (Some(left @ 1..), _) => SortError::Truncated { what: input.name().to_owned(), left, size },
        (_, Some(needed)) => SortError::Memory { given, needed },
        (_, None) => SortError::Unsupported(format!("records of {size} bytes are larger than any memory")),
    }
}

/// Reads the input and writes sorted runs, or the sorted output if everything fits into one load.
/// Returns the runs in the order of the input.
pub(crate) fn form(job: &Job<'_>, input: &Input, budget: Budget) -> Result<(Vec<Run>, Sorted), SortError> {
    let format = job.order.format();
    if let Format::Fixed(size) = format
        && size > budget.largest_record()
    {
        return Err(too_large(job.memory, input, size));
    }
    let forming = budget.forming(format, input.length());
    let load = match format {
        Format::Fixed(size) => forming.records(format, size).0,
        // The junction `cut` divides it when it knows the length of the lines.
        Format::Lines => forming.load,
    };
    let readers = if input.is_file() { READERS } else { 1 };
    let (mut runs, mut sorted) = (Vec::new(), Sorted::default());
    let read = Pipeline::tagged(INPUT)
        .buffers(PIECES, forming.piece)
        .forkable("read", StageKind::Io, |round: &mut Round<'_, Load>, buffer: &mut Buffer<Load>| {
            check_size(buffer, forming.piece)?;
            let read = input.read_at(round.number * buffer.capacity() as u64, buffer.space());
            let read = read.map_err(SortError::read(input.name()))?;
            buffer.set_len(read);
            job.progress.inc(read as u64);
            Ok(if read < buffer.capacity() { Flow::Last } else { Flow::Convey })
        })
        .fork(readers)
        .join_at("cut");
    let read = match input.length() {
        Some(length) => read.rounds(length.div_ceil(forming.piece as u64).max(1)),
        None => read,
    };
    let sort = Pipeline::tagged(LOADS)
        .buffers(forming.loads, load)
        .join_at("cut")
        .compute("sort", |_, buffer: &mut Buffer<Load>| {
            sort(job, buffer);
            Ok(Flow::Convey)
        })
        .join_at("gather");
    let splitter = Splitter::new(format, forming, input.name());
    let program = Program::new("sort-runs")
        .pipeline(read)
        .pipeline(sort)
        .pipeline(write_blocks(job, "gather", forming.block, false))
        .junction("cut", |ports| splitter.run(ports))
        .junction("gather", |ports| {
            (runs, sorted.runs, sorted.written) = collect(job, ports, forming.block, budget.largest_record())?;
            Ok(())
        });
    job.progress.set_message("sorting");
    let report = job.run(program)?;
    sorted.reports.push(report);
    Ok((runs, sorted))
}

fn sort(job: &Job<'_>, buffer: &mut Buffer<Load>) {
    let (order, format) = (job.order, job.order.format());
    let mut chunk = std::mem::take(&mut buffer.tag.chunk);
    let bytes = buffer.filled();
    chunk.find(bytes, format);
    job.counts.add_read(&chunk, bytes, format);
    entries::sort(order, bytes, &mut chunk);
    if job.is_unique {
        keep_first(job, bytes, &mut chunk);
    }
    buffer.tag.chunk = chunk;
}

fn keep_first(job: &Job<'_>, bytes: &[u8], chunk: &mut Chunk) {
    let mut entries = std::mem::take(&mut chunk.entries);
    entries.dedup_by(|next, kept| {
        let [later, first] = [*next, *kept].map(|entry| chunk.record(bytes, job.order.format(), entry as u32));
        let are_equal = job.order.are_equal((*next, later), (*kept, first));
        if are_equal {
            job.counts.add_dropped(later);
        }
        are_equal
    });
    chunk.entries = entries;
}

/// The junction `gather`: passes loads on as blocks. Returns the runs, the number of loads, and the
/// size of the output.
fn collect<'s>(
    job: &'s Job<'s>,
    ports: &mut Ports<'_, '_, Load>,
    block: usize,
    largest_record: usize,
) -> pipeline::Result<(Vec<Run>, u64, Written)> {
    let format = job.order.format();
    let mut load: Buffer<Load> = Buffer::new(0)?;
    let (mut writer, mut runs, mut loads) = (None, Vec::new(), 0);
    while let Some(accepted) = ports.accept(LOADS)? {
        // A single load is written directly to the output.
        let is_spilled = !(accepted.number == 0 && accepted.is_last);
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(BlockWriter::new(job, is_spilled, block, largest_record)?),
        };
        exchange_load(ports, &mut load)?;
        for &entry in &load.tag.chunk.entries {
            writer.push(load.tag.chunk.record(load.filled(), format, entry as u32), ports)?;
        }
        if is_spilled {
            let run = writer.end_run(ports)?;
            runs.try_reserve(1)?;
            runs.extend((!run.blocks.is_empty()).then_some(run));
        }
        exchange_load(ports, &mut load)?;
        ports.convey(LOADS, Flow::Convey)?;
        loads += 1;
    }
    let written = match writer {
        Some(writer) => writer.finish(ports)?.1,
        None => Written::default(),
    };
    Ok((runs, loads, written))
}

/// Exchanges the load at hand with another one.
fn exchange_load(ports: &mut Ports<'_, '_, Load>, load: &mut Buffer<Load>) -> pipeline::Result<()> {
    let held = ports.buffer(LOADS)?;
    held.swap(load);
    std::mem::swap(&mut held.tag, &mut load.tag);
    Ok(())
}
