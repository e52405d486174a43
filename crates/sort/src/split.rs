//! Cuts what is read into loads of whole records.

use pipeline::{Buffer, Flow, Ports};

use crate::block_writer::Load;
use crate::budget::Forming;
use crate::error::SortError;
use crate::order::Format;

/// The pipeline of pieces of the input.
pub(crate) const INPUT: &str = "input";

/// The pipeline of loads.
pub(crate) const LOADS: &str = "loads";

/// Puts pieces together to loads.
pub(crate) struct Splitter<'s> {
    format: Format,
    forming: Forming,
    /// What the input is called.
    name: &'s str,
    /// What is left of the load before: the beginning of a record.
    carry: Vec<u8>,
    /// How many bytes a record has on average, as far as was seen.
    mean: Option<usize>,
    /// How many bytes and records make the present load.
    most: (usize, usize),
    /// Lines in the present load.
    lines: usize,
    /// How far the piece that is held has been taken, and whether it is the last.
    piece: Option<(usize, bool)>,
    is_over: bool,
}

impl<'s> Splitter<'s> {
    pub(crate) fn new(format: Format, forming: Forming, name: &'s str) -> Splitter<'s> {
        Splitter {
            format,
            forming,
            name,
            carry: Vec::new(),
            mean: None,
            most: (0, 0),
            lines: 0,
            piece: None,
            is_over: false,
        }
    }

    /// Cuts until the input is over.
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

    /// Fills the load as far as it goes.
    fn fill(&mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<()> {
        if self.mean.is_none() && self.accept_piece(ports)? {
            let first = ports.buffer(INPUT)?.filled();
            self.mean = Some(first.len() / memchr::memchr_iter(b'\n', first).count().max(1));
        }
        let load = ports.buffer(LOADS)?;
        self.most = self.partition(load)?;
        load.space()[..self.carry.len()].copy_from_slice(&self.carry);
        load.set_len(self.carry.len());
        // There is no line feed in what was left.
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
                if self.use_whole_load_for_line(load) {
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

    /// Divides a load's memory between records and what is beside them: anew, where records have become much longer or shorter than they were. What it has touched
    /// before is given back then, or both parts would stay as large as they ever were.
    fn partition(&self, load: &mut Buffer<Load>) -> pipeline::Result<(usize, usize)> {
        let mean = self.mean.unwrap_or(1).max(1);
        let kept = load.tag.mean;
        if kept == 0 || self.format == Format::Lines && !(kept / 2..=kept * 2).contains(&mean) {
            if kept != 0 {
                load.tag = Load::default();
                load.swap(&mut Buffer::new(load.capacity())?);
            }
            load.tag.mean = mean;
        }
        let most = self.forming.records(self.format, load.tag.mean);
        load.tag.chunk.reserve(most.1, self.format);
        // What was left of the load before has to fit, and something more.
        Ok((most.0.max(self.carry.len() + 1).min(load.capacity()), most.1))
    }

    /// Leaves all memory of a load to a line that did not fit beside what is kept for many short ones. Returns whether there was more for it than it had.
    fn use_whole_load_for_line(&mut self, load: &mut Buffer<Load>) -> bool {
        let most = self.forming.longest_line().min(load.capacity());
        if self.format != Format::Lines || self.lines > 0 || self.most.0 >= most {
            return false;
        }
        load.tag = Load { mean: most, ..Load::default() };
        load.tag.chunk.reserve(1, self.format);
        self.most = (most, 1);
        true
    }

    /// How much of this a load with so many bytes still takes.
    fn fitting_length(&mut self, rest: &[u8], length: usize) -> usize {
        let (most_bytes, most_records) = self.most;
        // For the line feed that the last line may lack.
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

    /// Sees to it that a piece is held, if there is one more. Returns whether there is.
    fn accept_piece(&mut self, ports: &mut Ports<'_, '_, Load>) -> pipeline::Result<bool> {
        if self.piece.is_none() && !self.is_over {
            match ports.accept(INPUT)? {
                Some(accepted) => self.piece = Some((0, accepted.is_last)),
                None => self.is_over = true,
            }
        }
        Ok(!self.is_over)
    }

    /// Whether the input is over, which an empty last piece may be the first to tell.
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

    /// Takes back what is no whole record.
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
