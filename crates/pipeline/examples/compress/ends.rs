//! The stages at both ends: one reads blocks, one writes what has become of them.
//!
//! They are types and no functions, since they know how to do the same once more, which `rowlock pipeline explore --double` asks for.

use std::fs::File;
use std::io::{Seek, Write as _};
use std::os::unix::fs::FileExt;

use crc32fast::Hasher;
use rowlock_pipeline::{Buffer, Flow, Result, Round, Stage};

use crate::deflate::{HEADER, Piece, WINDOW};

/// Reads the input.
pub(crate) struct Read<'a> {
    source: &'a mut File,
    /// The end of what was read so far: as much as deflate can refer to.
    window: Vec<u8>,
}

impl<'a> Read<'a> {
    pub(crate) fn new(source: &'a mut File) -> Read<'a> {
        Read { source, window: Vec::with_capacity(2 * WINDOW) }
    }

    fn remember(&mut self, more: &[u8]) {
        if more.len() >= WINDOW {
            self.window.clear();
        }
        self.window.extend_from_slice(&more[more.len().saturating_sub(WINDOW)..]);
        self.window.drain(..self.window.len().saturating_sub(WINDOW));
    }
}

impl Stage<Piece> for Read<'_> {
    fn process(&mut self, _round: &mut Round<'_, Piece>, buffer: &mut Buffer<Piece>) -> Result<Flow> {
        buffer.fill_from(self.source).map_err(|why| format!("cannot read: {why}"))?;
        buffer.tag.dictionary.clone_from(&self.window);
        self.remember(buffer.filled());
        // What is not full is the last: the source had no more.
        Ok(if buffer.len() < buffer.capacity() { Flow::Last } else { Flow::Convey })
    }

    fn again(&mut self, _round: &mut Round<'_, Piece>, buffer: &mut Buffer<Piece>) -> Result<bool> {
        // Of a pipe, nothing is there any more.
        let is_file = self.source.metadata()?.is_file();
        if is_file {
            let begin = self.source.stream_position()? - buffer.len() as u64;
            self.source.read_exact_at(buffer.filled_mut(), begin)?;
        }
        Ok(is_file)
    }
}

/// What came through a pipeline.
#[derive(Default)]
pub(crate) struct Totals {
    /// Of the input.
    pub(crate) checksum: Hasher,
    /// Bytes.
    pub(crate) read: u64,
    /// Bytes.
    pub(crate) written: u64,
}

/// Writes the output but for its trailer, behind what has been written there before.
pub(crate) struct Write<'a> {
    pub(crate) target: &'a mut File,
    /// Whether it is a file that was made for this, in which bytes stay where they are written.
    pub(crate) is_ours: bool,
    pub(crate) totals: &'a mut Totals,
}

impl Stage<Piece> for Write<'_> {
    fn process(&mut self, round: &mut Round<'_, Piece>, buffer: &mut Buffer<Piece>) -> Result<Flow> {
        let compressed = &buffer.tag.compressed;
        if round.number() == 0 {
            self.target.write_all(&HEADER).map_err(|why| format!("cannot write: {why}"))?;
        }
        self.target.write_all(compressed).map_err(|why| format!("cannot write: {why}"))?;
        self.totals.checksum.combine(&buffer.tag.checksum);
        self.totals.read += buffer.len() as u64;
        self.totals.written += compressed.len() as u64;
        Ok(Flow::Convey)
    }

    fn again(&mut self, _round: &mut Round<'_, Piece>, buffer: &mut Buffer<Piece>) -> Result<bool> {
        let compressed = &buffer.tag.compressed;
        if self.is_ours {
            let end = self.target.stream_position()?;
            self.target.write_all_at(compressed, end - compressed.len() as u64)?;
        }
        Ok(self.is_ours)
    }
}
