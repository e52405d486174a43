//! A file that several threads read and write without filling the page cache.
//!
//! It uses direct I/O if the file system supports it. Otherwise data in the page cache is written
//! back and dropped a few MiB later, so that it uses little of the sort's memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, fadvise, fcntl_getfl, fcntl_setfl, fstatfs, statx};
use rustix::io::Errno;
use sys::pages::Pages;
use sys::write_back;

use super::{ALIGNMENT, reclaim};

/// The maximum number of bytes in the page cache on their way to the disk.
const MOST_IN_FLIGHT: u64 = 4 << 20;
/// The largest piece that is copied if memory or position is not aligned.
const LARGEST_COPY: usize = 1 << 20;
/// The `statfs` types of file systems in memory.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// A file and how it is read and written.
pub(super) struct Uncached {
    pub(super) file: File,
    /// Whether its file system keeps it in memory, in addition to the budget of the sort.
    is_in_memory: bool,
    /// Whether the disk transfers data to and from the program's memory. If it is false and the
    /// file is not in memory, a few MiB of the page cache are used at a time.
    is_direct: AtomicBool,
    /// Writes in the page cache that may not be on the disk yet, oldest first: positions and
    /// lengths.
    in_flight: Mutex<VecDeque<(u64, u64)>>,
}

impl Uncached {
    /// Takes a file that is not shared, because its mode changes for all who share it.
    pub(super) fn new(file: File) -> Uncached {
        let is_in_memory = fstatfs(&file).is_ok_and(|about| IN_MEMORY.contains(&(about.f_type as u32)));
        let is_direct = !is_in_memory && may_support_direct_io(&file) && set_direct(&file, true).is_ok();
        let uncached =
            Uncached { file, is_in_memory, is_direct: AtomicBool::new(is_direct), in_flight: Mutex::default() };
        if !is_direct {
            uncached.prevent_read_ahead();
        }
        uncached
    }

    /// Fills the memory from this position on, up to the end of the file. Returns the number of
    /// bytes. If memory, position and length are aligned, direct I/O needs no copy.
    pub(super) fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let is_direct = self.is_direct();
            match self.read_some(is_direct, place + done as u64, &mut into[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => self.fall_back_to_cache(is_direct, why)?,
            }
        }
        self.drop_from_cache(place, done as u64);
        Ok(done)
    }

    /// Writes all bytes at this position, which must be aligned. If the length is not aligned,
    /// zeros may follow up to the next multiple.
    pub(super) fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        if !place.is_multiple_of(ALIGNMENT as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("place {place} is not aligned")));
        }
        let mut done = 0;
        while done < bytes.len() {
            let (is_direct, reclaimed) = (self.is_direct(), reclaim::reclaimed_count());
            match self.write_some(is_direct, place + done as u64, &bytes[done..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) if is_full(&why) && cfg!(rowlock_canary = "a-full-disk-is-ignored") => break,
                Err(why) if is_full(&why) && reclaim::wait_for_more_than(reclaimed) => {}
                Err(why) => self.fall_back_to_cache(is_direct, why)?,
            }
        }
        self.start_write_back(place, bytes.len() as u64)
    }

    /// Flushes the file and its length to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()?;
        self.drop_from_cache(0, 0);
        Ok(())
    }

    fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Acquire)
    }

    fn is_cached(&self) -> bool {
        !self.is_in_memory && !self.is_direct()
    }

    /// Reads at least one byte unless the file ends.
    fn read_some(&self, is_direct: bool, place: u64, into: &mut [u8]) -> io::Result<usize> {
        let unit = ALIGNMENT as u64;
        if !is_direct {
            return self.file.read_at(into, place);
        }
        if place.is_multiple_of(unit) && is_aligned(into) {
            let whole = into.len() - into.len() % ALIGNMENT;
            if whole > 0 {
                return self.file.read_at(&mut into[..whole], place);
            }
        }
        let skipped = (place % unit) as usize;
        let mut pages = Pages::new((skipped + into.len()).next_multiple_of(ALIGNMENT).min(LARGEST_COPY))?;
        let read = self.file.read_at(&mut pages, place - skipped as u64)?;
        let given = pages.get(skipped..read).unwrap_or_default();
        let given = &given[..given.len().min(into.len())];
        into[..given.len()].copy_from_slice(given);
        Ok(given.len())
    }

    /// Writes some of the bytes. Pads an unaligned end with zeros.
    fn write_some(&self, is_direct: bool, place: u64, bytes: &[u8]) -> io::Result<usize> {
        if !is_direct {
            return self.file.write_at(bytes, place);
        }
        let whole = bytes.len() - bytes.len() % ALIGNMENT;
        if whole > 0 && is_aligned(bytes) {
            return self.file.write_at(&bytes[..whole], place);
        }
        let copied = &bytes[..bytes.len().min(LARGEST_COPY)];
        let mut pages = Pages::new(copied.len().next_multiple_of(ALIGNMENT))?;
        pages[..copied.len()].copy_from_slice(copied);
        Ok(self.file.write_at(&pages, place)?.min(copied.len()))
    }

    /// Switches to the page cache if the file system rejects direct I/O at the first attempt.
    fn fall_back_to_cache(&self, was_direct: bool, why: io::Error) -> io::Result<()> {
        if !was_direct || why.raw_os_error() != Some(Errno::INVAL.raw_os_error()) {
            return Err(why);
        }
        set_direct(&self.file, false)?;
        self.is_direct.store(false, Ordering::Release);
        self.prevent_read_ahead();
        Ok(())
    }

    /// Pages that are read ahead would count against the sort's memory.
    fn prevent_read_ahead(&self) {
        let _ = fadvise(&self.file, 0, None, Advice::Random);
    }

    /// Advises the kernel to drop written pages from the page cache. A length of 0 means up to the
    /// end.
    fn drop_from_cache(&self, place: u64, length: u64) {
        if self.is_cached() {
            let _ = fadvise(&self.file, place, length.try_into().ok(), Advice::DontNeed);
        }
    }

    /// Starts to write this part to the disk. If too much is in flight, waits for the oldest parts
    /// and drops them from the page cache.
    fn start_write_back(&self, place: u64, length: u64) -> io::Result<()> {
        if !self.is_cached() {
            return Ok(());
        }
        write_back::begin(&self.file, place, length)?;
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).push_back((place, length));
        while let Some((place, length)) = self.oldest_to_complete() {
            write_back::complete(&self.file, place, length)?;
            self.drop_from_cache(place, length);
        }
        Ok(())
    }

    /// Removes the oldest part if too much is in flight. The caller waits for it without blocking
    /// other threads.
    fn oldest_to_complete(&self) -> Option<(u64, u64)> {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let all: u64 = in_flight.iter().map(|(_, length)| length).sum();
        if all > MOST_IN_FLIGHT { in_flight.pop_front() } else { None }
    }
}

/// Whether the kernel may support direct I/O with our alignment.
fn may_support_direct_io(file: &File) -> bool {
    match statx(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(about) if about.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            (1..=ALIGNMENT as u32).contains(&about.stx_dio_offset_align) && about.stx_dio_mem_align <= ALIGNMENT as u32
        }
        // Linux before 6.1 and many file systems do not tell, so the caller must try.
        _ => true,
    }
}

fn set_direct(file: &File, on: bool) -> rustix::io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, on);
    fcntl_setfl(file, flags)
}

/// Whether the error is due to a lack of space.
pub(super) fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn is_aligned(bytes: &[u8]) -> bool {
    (bytes.as_ptr() as usize).is_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same file twice, with direct I/O if possible and without.
    fn both_ways(bytes: &[u8]) -> [Uncached; 2] {
        let make = || {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(bytes, 0).unwrap();
            Uncached::new(file)
        };
        let cached = make();
        set_direct(&cached.file, false).unwrap();
        cached.is_direct.store(false, Ordering::Release);
        [make(), cached]
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at / 3 + at / 1009) as u8).collect()
    }

    #[test]
    fn any_part_can_be_read_into_any_memory() {
        let whole = bytes(3 * ALIGNMENT + 100);
        let mut pages = Pages::new(6 * ALIGNMENT).unwrap();
        for file in both_ways(&whole) {
            for place in [0, 1, 4095, 4096, 8192, 12_288, 12_387, 12_388, 20_000] {
                for (from, length) in [(0, 1), (0, 4096), (0, 5000), (0, 20_000), (1, 4096), (1, 20_000), (512, 8192)] {
                    let read = file.read_at(place as u64, &mut pages[from..from + length]).unwrap();
                    let there =
                        &whole[place.min(whole.len())..whole.len().min(place + length).max(place.min(whole.len()))];
                    assert_eq!(&pages[from..from + read], there, "{length} bytes at {place} into {from}");
                }
            }
        }
    }

    #[test]
    fn writes_from_any_memory_are_followed_only_by_zeros() {
        let mut pages = Pages::new(6 * ALIGNMENT).unwrap();
        pages.copy_from_slice(&bytes(6 * ALIGNMENT));
        for (from, length) in [(0, 0), (0, 1), (0, 4096), (0, 5000), (1, 4096), (1, 20_000), (512, 8192)] {
            for file in both_ways(&[]) {
                file.write_at(ALIGNMENT as u64, &pages[from..from + length]).unwrap();
                file.sync().unwrap();
                let mut read = vec![1; 10 * ALIGNMENT];
                let count = file.read_at(0, &mut read).unwrap();
                let (written, rest) = read[..count].split_at(if length == 0 { 0 } else { ALIGNMENT + length });
                assert_eq!(written.get(ALIGNMENT..).unwrap_or_default(), &pages[from..from + length]);
                assert!(rest.len() < ALIGNMENT && rest.iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn writes_at_unaligned_positions_are_rejected() {
        for file in both_ways(&[7; 10]) {
            assert_eq!(file.write_at(512, &[1]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(file.file.metadata().unwrap().len(), 10);
        }
    }

    #[test]
    fn late_rejection_of_direct_io_falls_back_to_the_page_cache() {
        let [direct, _] = both_ways(&[7; 10]);
        let invalid = || io::Error::from(Errno::INVAL);
        assert!(direct.fall_back_to_cache(true, io::Error::from(Errno::IO)).is_err());
        direct.fall_back_to_cache(true, invalid()).unwrap();
        assert!(!direct.is_direct() && !fcntl_getfl(&direct.file).unwrap().contains(OFlags::DIRECT));
        assert_eq!(direct.read_at(0, &mut [0; 20]).unwrap(), 10);
        assert!(direct.fall_back_to_cache(false, invalid()).is_err());
    }

    #[test]
    fn files_in_memory_are_recognized() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        if fstatfs(&file).unwrap().f_type as u32 == IN_MEMORY[0] {
            let file = Uncached::new(file);
            assert!(file.is_in_memory && !file.is_direct() && !file.is_cached());
        }
    }

    #[test]
    fn writes_in_flight_are_bounded() {
        let [_, cached] = both_ways(&[]);
        let piece = vec![5; 1 << 20];
        for number in 0..8 {
            cached.write_at(number << 20, &piece).unwrap();
            let in_flight: u64 = cached.in_flight.lock().unwrap().iter().map(|(_, length)| length).sum();
            assert!(in_flight <= MOST_IN_FLIGHT);
        }
        assert_eq!(cached.file.metadata().unwrap().len(), 8 << 20);
    }
}
