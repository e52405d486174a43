//! Splits the input into loads of whole records.

use pipeline::{Buffer, Flow, Ports};

use crate::block_writer::Load;
use crate::budget::Forming;
use crate::error::SortError;
use crate::order::Format;

/// The pipeline of pieces of the input.
pub(crate) const INPUT: &str = "input";

/// The pipeline of loads.
pub(crate) const LOADS: &str = "loads";

/// The junction `cut`: combines pieces of the input into loads.
pub(crate) struct Splitter<'s> {
    format: Format,
    forming: Forming,
    name: &'s str,
    /// The beginning of a record that the previous load could not complete.
    carry: Vec<u8>,
    /// The average record length so far, in bytes.
    mean: Option<usize>,
    /// The maximum size of the current load, in bytes and in records.
    most: (usize, usize),
    /// The number of lines in the current load.
    lines: usize,
    /// The number of bytes consumed of the current piece, and whether it is the last piece.
    piece: Option<(usize, bool)>,
    is_over: bool,
}

impl<'s> Splitter<'s> {
    pub(crate) fn new(format: Format, forming: Forming, name: &'s str) -> Splitter<'s> {
        let (carry, mean, most, lines, piece, is_over) = Default::default();
        Splitter { format, forming, name, carry, mean, most, lines, piece, is_over }
    }

    /// Fills loads until the input ends.
    pub(crate) fn run(mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        while !self.is_over {
            if ports.accept(LOADS)?.is_none() {
                break;
            }
            self.fill(ports)?;
            self.carry_partial_record(ports)?;
            self.accept_end(ports)?;
            ports.convey(LOADS, if self.is_over { Flow::Last } else { Flow::Convey })?;
        }
        Ok(())
    }

    fn fill(&mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        if self.mean.is_none() && self.accept_piece(ports)? {
            let first = ports.buffer(INPUT)?.filled();
            self.mean = Some(first.len() / memchr::memchr_iter(b'\n', first).count().max(1));
        }
        let load = ports.buffer(LOADS)?;
        self.most = self.divide(load)?;
        load.space()[..self.carry.len()].copy_from_slice(&self.carry);
        load.set_len(self.carry.len());
        // A carried partial line has no line feed.
        self.lines = 0;
        while self.accept_piece(ports)? {
            let Some((at, is_last)) = self.piece else { break };
            let [piece, load] = ports.buffers([INPUT, LOADS])?;
            let rest = &piece.filled()[at..];
            let (length, taken) = (load.len(), self.fitting_length(rest, load.len()));
            load.space()[length..length + taken].copy_from_slice(&rest[..taken]);
            load.set_len(length + taken);
            if taken < rest.len() {
                self.piece = Some((at + taken, is_last));
                if self.use_whole_load_for_line(load)? {
                    continue;
                }
                break;
            }
            self.piece = None;
            self.is_over = is_last;
            ports.convey(INPUT, Flow::Convey)?;
        }
        self.mean = ports.buffer(LOADS)?.len().checked_div(self.lines).or(self.mean);
        Ok(())
    }

    /// Divides a load's memory between records and their entries. Divides it again if the average
    /// record length has changed much. In that case it replaces the memory, because otherwise both
    /// parts would keep all pages that they ever touched.
    fn divide(&self, load: &mut Buffer<Load>) -> pipeline::Result<(usize, usize)> {
        let mean = self.mean.unwrap_or(1).max(1);
        let kept = load.tag.mean;
        let is_lines = self.format == Format::Lines;
        if kept == 0 || is_lines && !(kept / 2..=kept * 2).contains(&mean) {
            load.tag = Load { mean, ..Load::default() };
            if is_lines {
                load.resize(0)?;
            }
        }
        let (bytes, records) = self.forming.records(self.format, load.tag.mean);
        // The load must hold at least the carried bytes and one more.
        let bytes = bytes.max(self.carry.len() + 1).min(self.forming.load);
        if is_lines && load.capacity() < bytes {
            load.resize(bytes)?;
        }
        load.tag.chunk.reserve(records, self.format)?;
        Ok((bytes.min(load.capacity()), records))
    }

    /// Gives all memory of a load to one line that does not fit beside the entries for many short
    /// ones. Returns `false` if the line had all of it already.
    fn use_whole_load_for_line(&mut self, load: &mut Buffer<Load>) -> pipeline::Result<bool> {
        let most = self.forming.longest_line();
        if self.format != Format::Lines || self.lines > 0 || self.most.0 >= most {
            return Ok(false);
        }
        load.tag = Load { mean: most, ..Load::default() };
        load.resize(most)?;
        load.tag.chunk.reserve(1, self.format)?;
        self.most = (most, 1);
        Ok(true)
    }

    /// Returns how many bytes of `rest` fit into a load that has `length` bytes.
    fn fitting_length(&mut self, rest: &[u8], length: usize) -> usize {
        let (most_bytes, most_records) = self.most;
        // Room for the line feed that the last line may lack.
        let spare = usize::from(self.format == Format::Lines);
        let taken = rest.len().min(most_bytes.saturating_sub(length + spare));
        if self.format != Format::Lines {
            return taken;
        }
        let left = most_records - self.lines;
        let lines = memchr::memchr_iter(b'\n', &rest[..taken]).count();
        if lines < left {
            self.lines += lines;
            return taken;
        }
        self.lines = most_records;
        left.checked_sub(1).map_or(0, |last| memchr::memchr_iter(b'\n', rest).nth(last).map_or(taken, |end| end + 1))
    }

    /// Accepts the next piece unless one is at hand. Returns whether there is one.
    fn accept_piece(&mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<bool> {
        if self.piece.is_none() && !self.is_over {
            match ports.accept(INPUT)? {
                Some(accepted) => self.piece = Some((0, accepted.is_last)),
                None => self.is_over = true,
            }
        }
        Ok(!self.is_over)
    }

    /// Detects the end of the input if the last piece is empty.
    fn accept_end(&mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        if self.accept_piece(ports)?
            && matches!(self.piece, Some((0, true)))
            && ports.buffer(INPUT)?.is_empty()
            && self.carry.is_empty()
        {
            ports.convey(INPUT, Flow::Convey)?;
            (self.piece, self.is_over) = (None, true);
        }
        Ok(())
    }

    /// Truncates the load to whole records and carries the rest over to the next load.
    fn carry_partial_record(&mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        let load = ports.buffer(LOADS)?;
        let length = load.len();
        let whole = match self.format {
            Format::Fixed(size) => length - length % size,
            Format::Lines if self.is_over => {
                if load.filled().last().is_some_and(|&last| last != b'\n') {
                    load.space()[length] = b'\n';
                    load.set_len(length + 1);
                }
                load.len()
            }
            Format::Lines => memchr::memrchr(b'\n', load.filled()).map_or(0, |end| end + 1),
        };
        self.carry.clear();
        self.carry.try_reserve(length.saturating_sub(whole))?;
        self.carry.extend_from_slice(&load.filled()[whole..]);
        load.set_len(whole);
        match self.format {
            Format::Fixed(size) if self.is_over && !self.carry.is_empty() => {
                let (what, left) = (self.name.to_owned(), self.carry.len() as u64);
                Err(SortError::Truncated { what, left, size }.into())
            }
            _ if whole == 0 && !self.is_over => {
                let (what, most) = (self.name.to_owned(), length as u64);
                Err(SortError::TooLong { what, length: length as u64 + 1, most }.into())
            }
            _ => Ok(()),
        }
    }
}
