//! A lower bound for all sorts with two passes: reads and writes the whole file twice, with direct
//! I/O, without sorting.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use anyhow::Context;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use sys::pages::Pages;

/// The size of a request.
const BLOCK: u64 = 1 << 20;

/// The number of concurrent requests in each direction.
const DEPTH: usize = 8;

/// The alignment of direct I/O.
const ALIGNMENT: u64 = 4096;

/// Writes a temporary file while reading the input, then writes the output while reading the
/// temporary file, and flushes it.
#[expect(clippy::disallowed_methods, reason = "removes its own temporary file")]
pub(crate) fn run(input: &Path, temporary: &Path, output: &Path) -> anyhow::Result<()> {
    let length = std::fs::metadata(input)?.len();
    pass(input, temporary, length).context("from the input to the temporary file")?;
    pass(temporary, output, length).context("from the temporary file to the output")?;
    std::fs::remove_file(temporary)?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "writes without the page cache")]
fn pass(from: &Path, to: &Path, length: u64) -> anyhow::Result<()> {
    let direct = OFlags::DIRECT.bits().try_into()?;
    let from = OpenOptions::new().read(true).custom_flags(direct).open(from)?;
    let to = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(direct).open(to)?;
    let blocks = length.div_ceil(BLOCK);
    // Without this, each block that extends the file waits for the one before. It is optional.
    let _ = fallocate(&to, FallocateFlags::empty(), 0, blocks * BLOCK);
    let (read, written) = (AtomicU64::new(0), AtomicU64::new(0));
    let reads = || each_block(&read, blocks, |at, block| whole(&from, at, block, length));
    let writes = || each_block(&written, blocks, |at, block| to.write_all_at(block, at));
    thread::scope(|scope| {
        let threads: Vec<_> = (0..DEPTH).flat_map(|_| [scope.spawn(reads), scope.spawn(writes)]).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))))
    })?;
    to.set_len(length)?;
    Ok(to.sync_all()?)
}

/// Processes all remaining blocks.
fn each_block(next: &AtomicU64, blocks: u64, act: impl Fn(u64, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
    let mut block = Pages::new(BLOCK as usize)?;
    // Not zeroes, which some devices do not store.
    block.iter_mut().zip(0u32..).for_each(|(byte, place)| *byte = (place.wrapping_mul(0x9e37_79b9) >> 24) as u8);
    loop {
        let number = next.fetch_add(1, Relaxed);
        if number >= blocks {
            return Ok(());
        }
        act(number * BLOCK, &mut block)?;
    }
}

/// Reads a block. The last one is shorter.
fn whole(file: &File, at: u64, block: &mut [u8], length: u64) -> io::Result<()> {
    let wanted = (length - at).min(BLOCK) as usize;
    let mut done = 0;
    while done < wanted {
        match file.read_at(&mut block[done..], at + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            // A partial page is the end of the file.
            read if !(read as u64).is_multiple_of(ALIGNMENT) && done + read < wanted => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            read => done += read,
        }
    }
    Ok(())
}
