//! What a device can do: the floor below which no program that reads and writes comes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, CWD, Mode, OFlags, fadvise, fdatasync, fstatvfs, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// How much is written and read at the most.
const MOST: u64 = 256 << 20;

/// How much at a time: enough that the device and not the call counts.
const BLOCK: usize = 1 << 20;

/// What direct I/O wants blocks and their places to be multiples of, on all devices that there are.
const ALIGNMENT: usize = 4096;

/// How many requests at a time, so that a device that serves several shows it.
const REQUESTS: usize = 4;

/// How long each direction takes at the most, but for the last requests.
const LONGEST: Duration = Duration::from_millis(400);

/// How fast the device below a folder takes and gives large blocks one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bytes read per second.
    pub read: u64,
    /// Bytes written per second.
    pub write: u64,
    /// Whether the page cache was passed by. Where the file system cannot, what is written counts until it is on the device, and
    /// what is read may come from memory in part.
    pub is_direct: bool,
}

impl Bandwidth {
    /// Measures it by a file that has no name and so cannot be left behind: written first, then read. Takes about a second, 256 MiB of room
    /// and a quarter of what is free at the most, and four megabytes of memory; the device has much to do meanwhile.
    ///
    /// # Errors
    /// Where no file can be made in the folder, or it cannot be written or read, or there is no room for a few megabytes.
    pub fn measure(folder: &Path) -> io::Result<Bandwidth> {
        let (file, is_direct) = nameless(folder)?;
        let free = fstatvfs(&file)?;
        let room = (free.f_bavail.saturating_mul(free.f_frsize) / 4).min(MOST);
        let blocks = room / BLOCK as u64;
        if blocks < REQUESTS as u64 {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "there is no room for a few megabytes"));
        }
        let (written, write) = timed(blocks, |at, block| file.write_all_at(block, at), || Ok(fdatasync(&file)?))?;
        if !is_direct {
            // What was written is still in memory, and the kernel is asked to forget it.
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
        let (_, read) = timed(written, |at, block| file.read_exact_at(block, at), || Ok(()))?;
        Ok(Bandwidth { read, write, is_direct })
    }
}

/// A file in a folder that goes with its last descriptor, and whether it passes by the page cache.
fn nameless(folder: &Path) -> io::Result<(File, bool)> {
    let open = |direct: OFlags| {
        let mode = Mode::RUSR | Mode::WUSR;
        match openat(CWD, folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | direct, mode) {
            Ok(file) => Ok(File::from(file)),
            // A file system that has no such files, or a kernel.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => unlinked(folder, direct),
            Err(why) => Err(why.into()),
        }
    };
    match open(OFlags::DIRECT) {
        // Some file systems only say at the first write that they cannot.
        Ok(file) if writes(&file) => Ok((file, true)),
        Ok(_) | Err(_) => Ok((open(OFlags::empty())?, false)),
    }
}

/// A file whose name is taken away at once.
fn unlinked(folder: &Path, direct: OFlags) -> io::Result<File> {
    /// Told from those of other threads that measure.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!(".rowlock-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let path = folder.join(name);
    let flags = direct.bits().try_into().unwrap_or(0);
    let file = OpenOptions::new().read(true).write(true).create_new(true).custom_flags(flags).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn writes(file: &File) -> bool {
    let mut memory = vec![0; 2 * ALIGNMENT];
    file.write_all_at(aligned(&mut memory, ALIGNMENT), 0).is_ok()
}

/// So much of the memory as begins where direct I/O wants it.
fn aligned(memory: &mut [u8], length: usize) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(ALIGNMENT).min(memory.len());
    let end = (start + length).min(memory.len());
    &mut memory[start..end]
}

/// Handles blocks of a file, from the first on, with some at a time, until there are so many or it has taken long enough; then does what makes them count.
/// Returns how many, and how many bytes that was per second.
fn timed(
    blocks: u64,
    act: impl Fn(u64, &mut [u8]) -> io::Result<()> + Sync,
    end: impl FnOnce() -> io::Result<()>,
) -> io::Result<(u64, u64)> {
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let work = || {
        let mut memory = vec![0; BLOCK + ALIGNMENT];
        let block = aligned(&mut memory, BLOCK);
        fill(block);
        // Every number that is drawn is handled, so there are no holes.
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= blocks {
                return Ok(());
            }
            act(number * BLOCK as u64, block)?;
            if start.elapsed() >= LONGEST {
                return Ok(());
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..REQUESTS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread that measures did not come to its end")))
        })
    })?;
    end()?;
    let done = next.into_inner().min(blocks);
    Ok((done, per_second(done, start.elapsed())))
}

/// How many bytes per second it is, if so many blocks take so long.
fn per_second(blocks: u64, time: Duration) -> u64 {
    let bytes = u128::from(blocks) * BLOCK as u128 * 1_000_000_000 / time.as_nanos().max(1);
    bytes.try_into().unwrap_or(u64::MAX)
}

/// Numbers that a device cannot press together.
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

    fn is_empty(folder: &Path) -> bool {
        std::fs::read_dir(folder).unwrap().next().is_none()
    }

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        Bandwidth::measure(folder.path()).unwrap();
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn a_file_without_a_name_is_made_where_there_are_none_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = unlinked(folder.path(), OFlags::empty()).unwrap();
        assert!(writes(&file) && is_empty(folder.path()));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        assert_eq!(Bandwidth::measure(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(Bandwidth::measure(&folder.path().join("file")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn each_block_is_handled_once_and_the_end_is_waited_for() {
        let seen = std::sync::Mutex::new(Vec::new());
        let mut ended = false;
        let act = |at: u64, block: &mut [u8]| {
            assert_eq!((block.len(), block.as_ptr().align_offset(ALIGNMENT)), (BLOCK, 0));
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
        // On a machine that stands still long enough, fewer: but none is left out.
        assert_eq!(seen, (0..blocks).collect::<Vec<_>>());
        assert!(blocks <= 9);
    }

    #[test]
    fn bytes_per_second_are_reckoned_from_blocks_and_time() {
        let block = BLOCK as u64;
        assert_eq!(per_second(9, Duration::from_secs(3)), 3 * block);
        assert_eq!(per_second(1, Duration::from_millis(250)), 4 * block);
        assert_eq!((per_second(0, Duration::from_secs(1)), per_second(1, Duration::ZERO)), (0, block * 1_000_000_000));
        assert_eq!(per_second(u64::MAX, Duration::ZERO), u64::MAX);
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let full = |_: u64, _: &mut [u8]| Err(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(timed(9, full, || Ok(())).unwrap_err().kind(), io::ErrorKind::StorageFull);
        let late = || Err(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(timed(9, |_, _| Ok(()), late).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
