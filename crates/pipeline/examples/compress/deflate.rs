//! Compresses the blocks of the input independently into pieces that form one gzip stream in order.
//!
//! Deflate refers to the last 32 KiB. A block without them would compress badly, so each gets the
//! end of the block before as its dictionary, which is part of the input and needs no waiting. A
//! piece ends with an empty stored block (a *sync flush*), which fills its last byte, so that the
//! next piece starts at a byte boundary. Only the last piece ends the stream. The checksum of the
//! input is combined from those of the blocks.

use std::io;

use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress, Status};
use rowlock_pipeline::Buffer;

/// The distance to which deflate can refer, in bytes.
pub(crate) const WINDOW: usize = 32 * 1024;

/// The header of the stream: gzip, deflate, no name, no time, Unix. So equal inputs give equal
/// outputs.
pub(crate) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

/// The tag of a block.
#[derive(Default)]
pub(crate) struct Piece {
    /// The end of the input before the block.
    pub(crate) dictionary: Vec<u8>,
    /// The compressed block.
    pub(crate) compressed: Vec<u8>,
    /// The checksum of the block, with its length.
    pub(crate) checksum: Hasher,
}

/// Compresses the block in the buffer.
///
/// # Errors
/// The library's, which are not expected.
pub(crate) fn block(level: u32, is_last: bool, buffer: &mut Buffer<Piece>) -> io::Result<()> {
    // Not reused for other blocks: even after a reset, its output would depend slightly on the
    // blocks before.
    let mut state = Compress::new(Compression::new(of_library(level)), false);
    let Piece { dictionary, mut compressed, .. } = std::mem::take(&mut buffer.tag);
    if !dictionary.is_empty() {
        state.set_dictionary(&dictionary)?;
    }
    let input = buffer.filled();
    let flush = if is_last { FlushCompress::Finish } else { FlushCompress::Sync };
    compressed.clear();
    loop {
        // Enough for an incompressible block and its headers.
        compressed.reserve(input.len() + input.len() / 1000 + 64);
        let status = state.compress_vec(&input[state.total_in() as usize..], &mut compressed, flush)?;
        // If there is space left, the output is complete.
        if status == Status::StreamEnd || (!is_last && compressed.len() < compressed.capacity()) {
            break;
        }
    }
    let mut checksum = Hasher::new();
    checksum.update(input);
    buffer.tag = Piece { dictionary, compressed, checksum };
    Ok(())
}

/// The library's first level is twice as fast as its second one, but its output is up to a half
/// larger than users expect of level 1.
fn of_library(level: u32) -> u32 {
    if level == 1 { 2 } else { level }
}

/// The trailer of the stream: the checksum of the input and the lower 32 bits of its length.
pub(crate) fn trailer(checksum: Hasher, length: u64) -> [u8; 8] {
    let mut trailer = [0; 8];
    trailer[..4].copy_from_slice(&checksum.finalize().to_le_bytes());
    trailer[4..].copy_from_slice(&(length as u32).to_le_bytes());
    trailer
}
