//! One block of the input after the other, compressed by whoever has time for it, into pieces that are one gzip stream when they are put together in order.
//!
//! Deflate refers to what it saw within the last 32 KiB. A block that was compressed by itself would have nothing to refer to, so each is
//! handed the end of the block before as its dictionary: that is in the input, and need not be waited for. A piece ends with an empty
//! stored block (a *sync flush*), which fills its last byte, so that the next piece begins with a byte of its own; only the last one
//! says that the stream is over. The checksum of all comes from those of the pieces.

use std::io;

use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress, Status};
use rowlock_pipeline::Buffer;

/// How far back deflate can refer, in bytes.
pub(crate) const WINDOW: usize = 32 * 1024;

/// What precedes all pieces: that it is gzip and deflate, no name, no time, made on Unix. So equal inputs have equal outputs.
pub(crate) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

/// What travels with a block.
#[derive(Default)]
pub(crate) struct Piece {
    /// The end of what came before it.
    pub(crate) dictionary: Vec<u8>,
    /// What has become of it.
    pub(crate) compressed: Vec<u8>,
    /// The checksum of the block, with its length.
    pub(crate) checksum: Hasher,
}

/// Compresses the block in the buffer.
///
/// # Errors
/// The library's, which there should be none of.
pub(crate) fn block(level: u32, is_last: bool, buffer: &mut Buffer<Piece>) -> io::Result<()> {
    // Not one for all blocks, reset in between: what it makes would depend, by some bytes, on which ones it has seen before.
    let mut state = Compress::new(Compression::new(of_library(level)), false);
    let Piece { dictionary, mut compressed, .. } = std::mem::take(&mut buffer.tag);
    if !dictionary.is_empty() {
        state.set_dictionary(&dictionary)?;
    }
    let input = buffer.filled();
    let flush = if is_last { FlushCompress::Finish } else { FlushCompress::Sync };
    compressed.clear();
    loop {
        // Room for what does not compress at all, with its headers.
        compressed.reserve(input.len() + input.len() / 1000 + 64);
        let status = state.compress_vec(&input[state.total_in() as usize..], &mut compressed, flush)?;
        // Where there is room left, nothing is held back for lack of it.
        if status == Status::StreamEnd || (!is_last && compressed.len() < compressed.capacity()) {
            break;
        }
    }
    let mut checksum = Hasher::new();
    checksum.update(input);
    buffer.tag = Piece { dictionary, compressed, checksum };
    Ok(())
}

/// The library's first level is twice as fast as its second one and leaves up to a half more: not what people know by that number.
fn of_library(level: u32) -> u32 {
    if level == 1 { 2 } else { level }
}

/// What follows all pieces: the checksum of the input and its length, as far as it fits into 32 bits.
pub(crate) fn trailer(checksum: Hasher, length: u64) -> [u8; 8] {
    let mut trailer = [0; 8];
    trailer[..4].copy_from_slice(&checksum.finalize().to_le_bytes());
    trailer[4..].copy_from_slice(&(length as u32).to_le_bytes());
    trailer
}
