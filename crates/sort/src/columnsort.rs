//! Out-of-core columnsort.
//!
//! Leighton (Tight Bounds on the Complexity of Parallel Sorting, IEEE Transactions on Computers
//! C-34, 1985) sorts a matrix of `r` rows and `s` columns into column-major order in eight steps,
//! if `s` divides `r` and `r >= 2 (s - 1)^2`. The odd steps sort each column. The even steps move
//! records independently of their contents: step 2 transposes the matrix by reading columns and
//! writing rows; step 4 does the reverse; step 6 shifts all records down by half a column; step 8
//! shifts them back. All reads and writes and their order are known before the first record is
//! read: columnsort is *oblivious*.
//!
//! A column fits into memory. Out of core (Chaudhry, Cormen and Wisniewski, Efficient Out-of-Core
//! Sorting on Multiprocessors, SPAA 2001), steps are combined so that each pass reads and writes
//! all records once:
//!
//! 1. Steps 1 and 2: sort a column and deal its records to all columns in turn.
//! 2. Steps 3 and 4: sort a column and send its first records to the first column, the next ones to
//!    the second, and so on.
//! 3. Steps 5 to 8: sort a column and merge its upper half with the lower half of the previous one.
//!    The result is the output, equivalent to shifting, sorting and shifting back.
//!
//! Each pass is one pipeline with the five stages of Roysden (Scheduling Pipelined, Multi-Threaded
//! Programs in Linux, Dartmouth TR2004-500, 2004, section 4): `read`, `sort`, `communicate`,
//! `permute`, `write`. Its buffers are columns. If all records fit into one column, only the last
//! pass runs.
//!
//! **Stable.** From the first pass on, a record carries its index in the input. Only the last pass
//! compares indices. In the first pass the records of a column are in the order of the input. In
//! the second pass a column consists of pieces from all columns in their order, each sorted stably.
//! Only in the last pass do pieces overlap.
//!
//! **Padding.** The matrix has more places than there are records ([`Shape`]). The padding in the
//! other places comes last for any keys. It is recognized by its index, which is greater than all
//! others, and never by a key.
//!
//! **Memory.** [`Shape::memory`] computes all memory of a shape: six columns in flight, two columns
//! that the last pass holds, the entries of each of these columns (16 bytes a record), and the
//! entries of two more columns for sorting. With 512 MiB, a column of records of 100 bytes has 55
//! MiB.
//!
//! **Ranks.** Several processes can sort together. Each has an equal number of columns, one behind
//! the other, in its own temporary files. In each round of the first two passes, each rank sends
//! every other one an equal part of its column: one *all-to-all* exchange in the stage
//! `communicate`. In the last pass, a rank needs only half a column of the next one, so only that
//! is sent. In the papers, each rank has every `P`-th column, and sends half of every column. One
//! rank sends nothing: the stage leaves columns as they are.
//!
//! **Two variants.** The I/O-bound variant sorts entries, which hold the prefix of a key and the
//! position of its record. From the second pass on it uses that columns consist of sorted pieces.
//! It moves each record once a pass. The compute-bound variant sorts whole records by merge sort,
//! starting from single records. Both have the same output.

pub mod shape;

mod column;
mod communicate;
mod permute;
mod sorting;
mod transfer;

use pipeline::{Buffer, Flow, Pipeline, Program, Round, RunReport, Stage, StageKind};

use crate::algorithm::{Sorted, Variant, Written};
use crate::error::SortError;
use crate::file::ALIGNMENT;
use crate::file::input::Input;
use crate::file::spill::Spill;
use crate::job::{Job, check_size};
use crate::order::Format;

use self::column::{Column, ColumnLayout};
use self::communicate::{Deal, PassHalf};
use self::permute::{Permutation, Permute, Shift};
use self::shape::{AUXILIARY, BUFFERS, SORTERS, Shape};
use self::sorting::Sorting;
use self::transfer::{Read, Source, Target, TransferObserver, Write};

/// The number of times that all bytes are read or written.
pub(crate) const TRANSFERS: u64 = 6;

/// Sorts the input into the output.
pub(crate) fn sort(job: &Job<'_>, variant: Variant, input: &Input) -> Result<Sorted, SortError> {
    Columnsort { job, variant, observer: None }.run(input)
}

#[derive(Clone, Copy)]
struct Columnsort<'s> {
    job: &'s Job<'s>,
    variant: Variant,
    observer: TransferObserver<'s>,
}

#[derive(Clone, Copy)]
struct Pass<'s> {
    sort: Columnsort<'s>,
    name: &'static str,
    shape: Shape,
    rounds: u64,
    source: Source<'s>,
    /// The layout of a column when it is read.
    form: ColumnLayout<'s>,
    /// The layout when it has been sorted. If sorting moves records, they have their indices then.
    sorted: ColumnLayout<'s>,
    are_pieces_sorted: bool,
    target: Target<'s>,
    /// The columns of the previous pass, whose space is freed once they have been read.
    done: Option<&'s Spill>,
}

impl Columnsort<'_> {
    fn run(&self, input: &Input) -> Result<Sorted, SortError> {
        let Format::Fixed(size) = self.job.order.format() else {
            let problem = "columnsort sorts only records of one size, not lines; merging sorts both";
            return Err(SortError::Unsupported(problem.to_owned()));
        };
        let mut reports = Vec::new();
        let (bytes, copy) = match input.length() {
            Some(length) => (length, None),
            None => {
                let (length, copy, report) = self.copy(input)?;
                reports.push(report);
                (length, Some(copy))
            }
        };
        let records = bytes / size as u64;
        if bytes % size as u64 != 0 {
            return Err(SortError::Truncated { what: input.name().to_owned(), left: bytes % size as u64, size });
        }
        let shape = Shape::choose(records, size, self.job.memory, self.variant, self.job.ranks.count())?;
        let source = copy.as_ref().map_or(Source::Input(input), Source::Copy);
        let written = self.sort(shape, source, &mut reports)?;
        Ok(Sorted { written, runs: shape.columns, passes: reports.len() as u32, reports })
    }

    fn sort(&self, shape: Shape, source: Source<'_>, reports: &mut Vec<RunReport>) -> Result<Written, SortError> {
        let (order, columns) = (self.job.order, shape.columns);
        let of_input = ColumnLayout::of_input(order, &shape);
        let last = Pass {
            sort: *self,
            name: "columnsort-3",
            shape,
            // One more round for the lower half of the last column.
            rounds: shape.own() + 1,
            source,
            form: of_input,
            sorted: of_input,
            are_pieces_sorted: columns > 1,
            target: Target::Output(&self.job.output),
            done: None,
        };
        if columns == 1 {
            return last.shift(reports);
        }
        let ordered = ColumnLayout::of_columns(order, &shape, true);
        let bytes = shape.own() * columns * shape.span();
        let dealt = Spill::create(self.job.temporary.folder)?;
        dealt.expect(bytes)?;
        let first = Pass {
            name: "columnsort-1",
            rounds: shape.own(),
            sorted: if self.variant == Variant::ComputeBound { ordered } else { of_input },
            are_pieces_sorted: false,
            target: Target::Pieces(&dealt),
            ..last
        };
        reports.push(first.deal(Permutation::Transpose, ordered)?);
        // Needs no additional room: the first file shrinks as this one grows.
        let split = Spill::create(self.job.temporary.folder)?;
        let second = Pass {
            name: "columnsort-2",
            source: Source::Columns(&dealt),
            form: ordered,
            sorted: ordered,
            are_pieces_sorted: true,
            target: Target::Pieces(&split),
            done: Some(&dealt),
            ..first
        };
        reports.push(second.deal(Permutation::Untranspose, ordered)?);
        drop(dealt);
        let mixed = ColumnLayout::of_columns(order, &shape, false);
        let source = Source::Columns(&split);
        Pass { source, form: mixed, sorted: mixed, done: Some(&split), ..last }.shift(reports)
    }

    /// Copies a stream to a temporary file, to get its length and random access. The pipeline has
    /// the same stages as any pass, so that any structure that the user requests fits it as well.
    fn copy(&self, input: &Input) -> Result<(u64, Spill, RunReport), SortError> {
        let copy = Spill::create(self.job.temporary.folder)?;
        let block = (self.job.memory / (2 * BUFFERS as u64)).clamp(ALIGNMENT as u64, 4 << 20) as usize;
        let block = block - block % ALIGNMENT;
        let mut length = 0;
        let pipeline = Pipeline::tagged("columnsort-copy")
            .buffers(BUFFERS, block)
            .io("read", |_, buffer: &mut Buffer<Column>| {
                check_size(buffer, block)?;
                let read = input.read_at(length, buffer.space()).map_err(SortError::read(input.name()))?;
                buffer.tag.place = length;
                length += read as u64;
                let up = read.next_multiple_of(ALIGNMENT);
                buffer.space()[read..up].fill(0);
                buffer.set_len(up);
                Ok(if read < block { Flow::Last } else { Flow::Convey })
            })
            .forkable("sort", StageKind::Compute, pass_on)
            .communicate("communicate", pass_on)
            .compute("permute", pass_on)
            .forkable("write", StageKind::Io, |_, buffer: &mut Buffer<Column>| {
                copy.write_at(buffer.tag.place, buffer.filled()).map_err(SortError::write("a temporary file"))?;
                Ok(Flow::Convey)
            });
        let report = self.job.run(Program::new("columnsort-copy").pipeline(pipeline))?;
        Ok((length, copy, report))
    }
}

impl Pass<'_> {
    /// The index of the first record in the column of a round.
    fn first_index(&self, round: u64) -> u64 {
        (self.sort.job.ranks.number() * self.shape.own() + round) * self.shape.rows
    }

    /// Runs one of the first passes.
    fn deal(self, permutation: Permutation, then: ColumnLayout<'_>) -> Result<RunReport, SortError> {
        let permute = Permute { permutation, pass: self, then };
        self.run(Deal(permute), permute)
    }

    /// Runs the last pass, steps 5 to 8. A single column is only sorted.
    fn shift(self, reports: &mut Vec<RunReport>) -> Result<Written, SortError> {
        let mut written = Written::default();
        reports.push(self.run(PassHalf { pass: self, next: Vec::new() }, Shift::new(self, &mut written))?);
        Ok(written)
    }

    /// Runs a pass with its five stages.
    fn run(self, communicate: impl Stage<Column>, permute: impl Stage<Column>) -> Result<RunReport, SortError> {
        let Pass { sort: Columnsort { job, variant, .. }, name, shape, rounds, target, .. } = self;
        let pipeline = Pipeline::tagged(name)
            .buffers(shape.buffers(), shape.buffer())
            .rounds(rounds)
            .forkable_stage("read", StageKind::Io, move || Read(self))
            .forkable_stage("sort", StageKind::Compute, move || Sorting(self))
            .fork(SORTERS)
            .auxiliary(if variant == Variant::ComputeBound { 1 } else { 0 })
            .stage("communicate", StageKind::Communicate, communicate)
            .auxiliary(if shape.ranks > 1 { 1 } else { 0 })
            .stage("permute", StageKind::Compute, permute)
            .auxiliary(if matches!(target, Target::Output(_)) { AUXILIARY } else { 1 });
        // A pipe must be written in order.
        let pipeline = match target {
            Target::Output(output) if !output.is_file() => pipeline.stage("write", StageKind::Io, Write(self)),
            _ => pipeline.forkable_stage("write", StageKind::Io, move || Write(self)),
        };
        job.run(Program::new(name).pipeline(pipeline))
    }
}

/// A stage that does nothing.
fn pass_on(_: &mut Round<'_, Column>, _: &mut Buffer<Column>) -> pipeline::Result<Flow> {
    Ok(Flow::Convey)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::{Mutex, PoisonError};

    use indicatif::ProgressBar;
    use pipeline::Canceller;

    use crate::file::output::Output;
    use crate::key::Key;
    use crate::order::Order;
    use crate::ranks::Ranks;
    use crate::record_counts::RecordCounts;
    use crate::temporary_file::TemporaryFile;

    use super::transfer::Transfer;
    use super::*;

    const SIZE: usize = 6;

    /// Creates records: the first two bytes are the key, the other four the record's number.
    fn records(count: u32, key: impl Fn(u32) -> u32) -> Vec<u8> {
        let record = |number: u32| [&key(number).to_be_bytes()[2..], &number.to_be_bytes()].concat();
        (0..count).flat_map(record).collect()
    }

    /// Sorts records in a matrix of this shape. Returns the output, and the reads and writes.
    fn sort(records: &[u8], (rows, columns): (u64, u64), variant: Variant) -> (Vec<u8>, [Vec<Transfer>; 2]) {
        // In memory if possible, since removing files from a disk takes longer than the rest.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let order = Order::new(Format::Fixed(SIZE), vec![Key { length: Some(2), ..Key::WHOLE }]).unwrap();
        let transfers = Mutex::new([Vec::new(), Vec::new()]);
        let observer = |transfer: Transfer| {
            let mut transfers = transfers.lock().unwrap_or_else(PoisonError::into_inner);
            transfers[usize::from(transfer.stage == "write")].push(transfer);
        };
        let target = folder.path().join("sorted");
        let job = Job {
            order: &order,
            output: Output::create(&target).unwrap(),
            temporary: TemporaryFile::new(folder.path()),
            progress: ProgressBar::hidden(),
            counts: RecordCounts::new(true),
            is_unique: false,
            memory: 1 << 20,
            ranks: Ranks::ONE,
            canceller: &Canceller::new(),
        };
        let sort = Columnsort { job: &job, variant, observer: Some(&observer) };
        let (length, copy, report) = sort.copy(&Input::stream("records", Cursor::new(records.to_vec()))).unwrap();
        assert_eq!(length, records.len() as u64);
        let shape = Shape::new(length / SIZE as u64, SIZE, rows, columns).unwrap();
        let counted = sort.sort(shape, Source::Copy(&copy), &mut vec![report]).unwrap();
        assert_eq!((counted.bytes, counted.records), (length, length / SIZE as u64));
        assert_eq!((job.counts.bytes(), job.counts.records()), (length, length / SIZE as u64));
        job.output.finish(length).unwrap();
        (std::fs::read(&target).unwrap(), transfers.into_inner().unwrap())
    }

    /// The tightest shapes that the rules allow, and looser ones.
    const SHAPES: [(u64, u64); 5] = [(2, 1), (4, 2), (12, 3), (20, 4), (104, 8)];

    #[test]
    fn the_tightest_shapes_sort_stably() {
        for shape @ (rows, columns) in SHAPES {
            let all = (rows * columns) as u32;
            let keys: [fn(u32) -> u32; 5] = [
                |number| number.wrapping_mul(2_654_435_761) >> 17,
                |number| (number.wrapping_mul(2_654_435_761) >> 13) % 3 + 65533,
                |number| number,
                |number| 65535 - number,
                |_| 65535,
            ];
            // Each piece is a write of its own, so the largest matrix is slow.
            let most = if columns < 8 { usize::MAX } else { 2 };
            let cases = (0..keys.len()).map(|which| (all - 1, which)).chain([(0, 0), (1, 0), (all, 0)]);
            for (count, which) in cases.take(most) {
                let records = records(count, keys[which]);
                let mut expected: Vec<&[u8]> = records.chunks(SIZE).collect();
                expected.sort_by_key(|record| record[..2].to_vec());
                for variant in [Variant::IoBound, Variant::ComputeBound] {
                    let (sorted, _) = sort(&records, shape, variant);
                    assert!(sorted == expected.concat(), "{shape:?}, {count} records, keys {which}, {variant:?}");
                }
            }
        }
    }

    #[test]
    fn reads_and_writes_do_not_depend_on_the_records() {
        for (rows, columns) in [(20, 4), (104, 8)] {
            for variant in [Variant::IoBound, Variant::ComputeBound] {
                let count = (rows * columns) as u32 - 5;
                let scattered = records(count, |number| number.wrapping_mul(2_654_435_761) >> 16);
                let (_, random) = sort(&scattered, (rows, columns), variant);
                let (_, equal) = sort(&records(count, |_| 65535), (rows, columns), variant);
                assert_eq!(random, equal);
                // Each of three passes reads each column once; two passes write one piece for each
                // pair of columns.
                assert_eq!(random[0].len() as u64, 3 * columns);
                assert!(random[1].len() as u64 > 2 * columns * columns);
            }
        }
    }
}
