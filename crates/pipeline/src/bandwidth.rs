//! The bandwidth of a device, which limits any program that reads and writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, Mode, OFlags, fadvise, fcntl_getfl, fcntl_setfl, fdatasync, fstatvfs};
use serde::{Deserialize, Serialize};
use sys::files::{Draft, Folder};
use sys::pages::Pages;

/// At most this much is written and read, in bytes.
const MOST: u64 = 256 << 20;

/// The size of a request, in bytes: large enough that the device dominates, and not the call.
const BLOCK: usize = 1 << 20;

/// The number of concurrent requests, to measure devices that serve several at a time.
const REQUESTS: usize = 4;

/// The time limit for each direction, without the last requests.
const LONGEST: Duration = Duration::from_millis(400);

/// The sequential bandwidth of the device below a folder, for large blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bytes read per second.
    pub read: u64,
    /// Bytes written per second.
    pub write: u64,
    /// Whether the measurement bypassed the page cache. If the file system does not support that,
    /// writing includes the time until the data is on the device, and some reads may come from
    /// memory.
    pub is_direct: bool,
}

impl Bandwidth {
    /// Writes and then reads an unnamed file, which cannot remain behind. This needs about a
    /// second, four megabytes of memory, and at most 256 MiB and a quarter of the free disk space.
    /// It keeps the device busy.
    ///
    /// # Errors
    /// If no file can be created in the folder, if it cannot be written or read, or if less than a
    /// few megabytes are free.
    pub fn measure(folder: &Path) -> io::Result<Bandwidth> {
        let (file, is_direct) = open_unnamed(folder)?;
        let free = fstatvfs(&file)?;
        let room = (free.f_bavail.saturating_mul(free.f_frsize) / 4).min(MOST);
        let blocks = room / BLOCK as u64;
        if blocks < REQUESTS as u64 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "less than a few megabytes are free"));
        }
        let (written, write) = timed(blocks, |at, block| file.write_all_at(block, at), || Ok(fdatasync(&file)?))?;
        if !is_direct {
            // The data is still in memory. Ask the kernel to evict it.
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
        let (_, read) = timed(written, |at, block| file.read_exact_at(block, at), || Ok(()))?;
        Ok(Bandwidth { read, write, is_direct })
    }
}

/// Opens a file that disappears with its last descriptor. Also returns whether it bypasses the page
/// cache.
fn open_unnamed(folder: &Path) -> io::Result<(File, bool)> {
    let file = Draft::create(&Folder::open(folder)?, Mode::RUSR | Mode::WUSR)?.into_unnamed()?;
    let flags = fcntl_getfl(&file)?;
    // Some file systems reject direct I/O only at the first write.
    let is_direct = fcntl_setfl(&file, flags | OFlags::DIRECT).is_ok() && can_write(&file);
    if !is_direct {
        fcntl_setfl(&file, flags)?;
    }
    Ok((file, is_direct))
}

fn can_write(file: &File) -> bool {
    Pages::new(BLOCK).is_ok_and(|block| file.write_all_at(&block, 0).is_ok())
}

/// Processes the blocks of a file with several threads until all are done or the time is over, and
/// then calls `end`. Returns the number of blocks, and the bytes per second.
fn timed(
    blocks: u64,
    act: impl Fn(u64, &mut [u8]) -> io::Result<()> + Sync,
    end: impl FnOnce() -> io::Result<()>,
) -> io::Result<(u64, u64)> {
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let work = || {
        // Direct I/O requires memory that is aligned to a page.
        let mut block = Pages::new(BLOCK)?;
        fill(&mut block);
        // Each number drawn is processed, so the file has no holes.
        while let number = next.fetch_add(1, Relaxed)
            && number < blocks
        {
            act(number * BLOCK as u64, &mut block)?;
            if start.elapsed() >= LONGEST {
                break;
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..REQUESTS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a measuring thread panicked")))
        })
    })?;
    end()?;
    let done = next.into_inner().min(blocks);
    Ok((done, per_second(done, start.elapsed())))
}

fn per_second(blocks: u64, time: Duration) -> u64 {
    let bytes = u128::from(blocks) * BLOCK as u128 * 1_000_000_000 / time.as_nanos().max(1);
    bytes.try_into().unwrap_or(u64::MAX)
}

/// Fills a block with data that a device cannot compress.
fn fill(block: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in block.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        Bandwidth::measure(folder.path()).unwrap();
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |name| Bandwidth::measure(&folder.path().join(name)).unwrap_err().kind();
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!((kind("missing"), kind("file")), (io::ErrorKind::NotFound, io::ErrorKind::NotADirectory));
    }

    #[test]
    fn each_block_is_processed_once_and_then_the_end_is_called() {
        let seen = std::sync::Mutex::new(Vec::new());
        let mut ended = false;
        let act = |at: u64, block: &mut [u8]| {
            assert_eq!((block.len(), block.as_ptr().align_offset(4096)), (BLOCK, 0));
            seen.lock().unwrap().push(at / BLOCK as u64);
            Ok(())
        };
        let (blocks, _) = timed(9, act, || {
            ended = true;
            Ok(())
        })
        .unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert!(ended);
        // A slow machine may process fewer blocks, but without gaps.
        assert_eq!(seen, (0..blocks).collect::<Vec<_>>());
        assert!(blocks <= 9);
    }

    #[test]
    fn bytes_per_second_follow_from_blocks_and_time() {
        let block = BLOCK as u64;
        assert_eq!(per_second(9, Duration::from_secs(3)), 3 * block);
        assert_eq!(per_second(1, Duration::from_millis(250)), 4 * block);
        assert_eq!((per_second(0, Duration::from_secs(1)), per_second(1, Duration::ZERO)), (0, block * 1_000_000_000));
        assert_eq!(per_second(u64::MAX, Duration::ZERO), u64::MAX);
    }

    #[test]
    fn errors_are_returned() {
        let full = || Err(io::Error::from(io::ErrorKind::StorageFull));
        for outcome in [timed(9, |_, _| full(), || Ok(())), timed(9, |_, _| Ok(()), full)] {
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::StorageFull);
        }
    }
}
