//! The first and the last stage: one reads blocks, the other writes the compressed ones.
//!
//! They are types because they can repeat their work, which `rowlock pipeline explore --double`
//! requires.

use std::fs::File;
use std::io::{Seek, Write as _};
use std::os::unix::fs::FileExt;

use crc32fast::Hasher;
use rowlock_pipeline::{Buffer, Flow, Result, Round, Stage};

use crate::deflate::{HEADER, Piece, WINDOW};

/// Reads the input.
pub(crate) struct Read<'a> {
    source: &'a mut File,
    /// The end of the input so far, to which deflate can refer.
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
        // Only the last block is not full.
        Ok(if buffer.len() < buffer.capacity() { Flow::Last } else { Flow::Convey })
    }

    fn again(&mut self, _round: &mut Round<'_, Piece>, buffer: &mut Buffer<Piece>) -> Result<bool> {
        // A pipe cannot be read again.
        let is_file = self.source.metadata()?.is_file();
        if is_file {
            let begin = self.source.stream_position()? - buffer.len() as u64;
            self.source.read_exact_at(buffer.filled_mut(), begin)?;
        }
        Ok(is_file)
    }
}

/// The totals of a run.
#[derive(Default)]
pub(crate) struct Totals {
    /// The checksum of the input.
    pub(crate) checksum: Hasher,
    /// The bytes of the input.
    pub(crate) read: u64,
    /// The bytes of the output.
    pub(crate) written: u64,
}

/// Appends the output, without its trailer.
pub(crate) struct Write<'a> {
    pub(crate) target: &'a mut File,
    /// Whether it is a new file of this program, in which a write can be repeated.
    pub(crate) is_ours: bool,
    pub(crate) totals: &'a mut Totals,
}

impl Stage<Piece> for Write<'_> {
    fn process(&mut self, round: &mut Round<'_, Piece>, buffer: &mut Buffer<Piece>) -> Result<Flow> {
        let compressed = &buffer.tag.compressed;
        if round.number == 0 {
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
