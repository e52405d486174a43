//! The statistics region: a file with a slot for each process.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use sys::files;
use sys::shared_memory::{Mapping, View};
use sys::unnamed::UnnamedFile;

use crate::process::{ProcessReport, ProcessStatistics};

/// The number of processes that a region has slots for. The file is sparse: unused slots take no
/// space.
const SLOTS: usize = 1024;
/// "rowlock" and a version number, which changes with the layout of the region.
const MAGIC: u64 = u64::from_ne_bytes(*b"rowlock\x01");
/// Size of the header: the magic number, and the number of slots claimed so far, including rejected
/// claims.
const HEADER: usize = 128;
const LENGTH: usize = HEADER + SLOTS * size_of::<ProcessStatistics>();

/// A statistics region.
#[derive(Debug)]
pub struct Region {
    file: File,
    mapping: Arc<Mapping>,
}

/// Why a region cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The file cannot be created, opened or mapped.
    #[error("cannot use the statistics region: {0}")]
    System(#[from] io::Error),
    /// The file is not a statistics region, or was created by another version of this library.
    #[error("this file is not a statistics region of this version")]
    Foreign,
}

impl Region {
    /// Creates a region for the processes of this user, in a new file. The caller removes it later.
    ///
    /// # Errors
    /// If the file cannot be created or mapped.
    pub fn create(path: &Path) -> Result<Region, RegionError> {
        let file = files::create_new(path)?;
        file.set_len(LENGTH as u64)?;
        let region = Region::map(file)?;
        region.begin()?;
        Ok(region)
    }

    /// Creates a region that has no name and that no process can shorten, with its path.
    ///
    /// # Errors
    /// If it cannot be created or mapped.
    pub fn unnamed() -> Result<(Region, UnnamedFile), RegionError> {
        let unnamed = UnnamedFile::of_length(LENGTH as u64)?;
        let region = Region::map(unnamed.file().try_clone()?)?;
        region.begin()?;
        Ok((region, unnamed))
    }

    /// Opens a region that another process has created.
    ///
    /// # Errors
    /// If the file cannot be opened or mapped, or is not a region of this version.
    pub fn open(path: &Path) -> Result<Region, RegionError> {
        let file = files::open_existing(path)?;
        if file.metadata()?.len() != LENGTH as u64 {
            return Err(RegionError::Foreign);
        }
        let region = Region::map(file)?;
        if region.is_intact() { Ok(region) } else { Err(RegionError::Foreign) }
    }

    fn begin(&self) -> Result<(), RegionError> {
        self.allocate(0, HEADER)?;
        self.header(0).ok_or(RegionError::Foreign)?.store(MAGIC, Relaxed);
        Ok(())
    }

    fn map(file: File) -> Result<Region, RegionError> {
        let length = NonZeroUsize::new(LENGTH).ok_or(RegionError::Foreign)?;
        let mapping = Mapping::new(&file, length)?;
        Ok(Region { file, mapping })
    }

    /// Allocates disk space for a part of the file. A process that writes to a part without space
    /// is killed by SIGBUS.
    fn allocate(&self, offset: usize, length: usize) -> io::Result<()> {
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), offset as u64, length as u64)) {
            // A file system that cannot reserve space usually has enough.
            Err(Errno::OPNOTSUPP) => Ok(()),
            done => Ok(done?),
        }
    }

    fn header(&self, number: usize) -> Option<View<AtomicU64>> {
        self.mapping.get(number * size_of::<AtomicU64>())
    }

    /// The number of slots claimed so far, including rejected claims.
    fn claims(&self) -> u64 {
        self.header(1).map_or(0, |claims| claims.load(Relaxed))
    }

    /// A slot with disk space. Without space, even reading it would raise SIGBUS.
    fn slot(&self, number: u64) -> Option<View<ProcessStatistics>> {
        let number = usize::try_from(number).ok().filter(|&number| number < SLOTS)?;
        let offset = HEADER + number * size_of::<ProcessStatistics>();
        self.allocate(offset, size_of::<ProcessStatistics>()).ok()?;
        self.mapping.get(offset)
    }

    /// Claims a slot for the calling process. Returns `None` if all slots are taken or the disk is
    /// full.
    pub fn claim(&self) -> Option<View<ProcessStatistics>> {
        self.slot(self.header(1)?.fetch_add(1, Relaxed))
    }

    /// The number of processes that found no free slot.
    pub fn rejected(&self) -> u64 {
        self.claims().saturating_sub(SLOTS as u64)
    }

    /// The number of processes whose report was lost: there was no memory for it, the region was
    /// overwritten, or the process was killed before it could begin.
    pub fn lost(&self) -> u64 {
        let claimed = self.claims().min(SLOTS as u64).max(u64::from(!self.is_intact()));
        claimed.saturating_sub(self.processes().len() as u64)
    }

    /// The sum of the waits of all processes so far, given views of the slots that earlier calls
    /// have read. The processes can write anything, so it wraps around, and may decrease.
    fn waits(&self, slots: &mut Vec<View<ProcessStatistics>>) -> u64 {
        let claimed = self.claims().min(SLOTS as u64);
        let new = (slots.len() as u64..claimed).map_while(|number| self.slot(number));
        slots.extend(new);
        slots.iter().fold(0, |sum: u64, slot| sum.wrapping_add(slot.waits_of_all_kinds()))
    }

    /// Counts the waits of all processes so far, again and again. The processes can write anything,
    /// so a count may be smaller than the one before.
    pub fn into_wait_counter(self) -> impl FnMut() -> u64 + Send + 'static {
        let mut slots = Vec::new();
        move || self.waits(&mut slots)
    }

    fn is_intact(&self) -> bool {
        self.header(0).is_some_and(|magic| magic.load(Relaxed) == MAGIC)
    }

    /// The statistics written so far, one report per process, in the order of the claims. There are
    /// none if the region was overwritten.
    pub fn processes(&self) -> Vec<ProcessReport> {
        let claimed = if self.is_intact() { self.claims().min(SLOTS as u64) } else { 0 };
        let slots = (0..claimed).filter_map(|number| self.slot(number));
        slots.filter_map(|slot| slot.report()).collect()
    }
}

#[cfg(test)]
mod tests {
    use policy::Span;
    use wait::Statistics;

    use super::*;
    use crate::kind::{Reason, WaitKind};
    use crate::process::Waits;

    fn region() -> (tempfile::TempDir, std::path::PathBuf, Region) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("region");
        let region = Region::create(&path).unwrap();
        (folder, path, region)
    }

    #[test]
    fn statistics_written_by_a_process_are_read_by_the_creator() {
        let (_folder, path, region) = region();
        let slot = Region::open(&path).unwrap().claim().unwrap();
        slot.begin(7, b"a-name-that-is-too-long", Span::from_micros(20));
        (0..18).for_each(|thread| slot.counts(WaitKind::Mutex, thread).count_wait());
        let spins = Statistics { spins: 5, successful_spins: 4, ..Statistics::default() };
        slot.counts(WaitKind::Mutex, 1).counters.merge(&spins);
        (0..3).for_each(|_| slot.count_pass_through(WaitKind::Gomp, Reason::Tasks));
        assert!(!region.processes()[0].ended);
        slot.end();
        let mutexes =
            Waits { kind: WaitKind::Mutex, statistics: Statistics { waits: 18, ..spins }, passed_through: vec![] };
        assert_eq!(mutexes.time_saved(Span::from_micros(20)), Span::from_micros(80));
        let barriers =
            Waits { kind: WaitKind::Gomp, statistics: Statistics::default(), passed_through: vec![(Reason::Tasks, 3)] };
        let expected = ProcessReport {
            pid: 7,
            name: "a-name-that-is-".to_owned(),
            ended: true,
            cs: Span::from_micros(20),
            waits: vec![mutexes, barriers],
        };
        assert_eq!(region.processes(), [expected]);
    }

    #[test]
    fn the_waits_of_all_processes_are_counted_whatever_they_write() {
        let (_folder, path, region) = region();
        let mut count = Region::open(&path).unwrap().into_wait_counter();
        assert_eq!(count(), 0);
        let slots = [0, 1].map(|_| region.claim().unwrap());
        let wait = |slot: usize, kind, times| (0..times).for_each(|cpu| slots[slot].counts(kind, cpu).count_wait());
        wait(0, WaitKind::Mutex, 5);
        assert_eq!(count(), 5);
        wait(0, WaitKind::Yield, 1);
        wait(1, WaitKind::Barrier, 3);
        assert_eq!(count(), 9);
        (0..2 * SLOTS).for_each(|_| drop(region.claim()));
        assert_eq!(count(), 9);
        std::os::unix::fs::FileExt::write_all_at(&region.file, &vec![0xff; LENGTH], 0).unwrap();
        let counters = SLOTS as u64 * WaitKind::ALL.len() as u64 * 4;
        assert_eq!(count(), 0_u64.wrapping_sub(counters));
    }

    #[test]
    fn a_region_without_a_name_survives_what_a_program_does_to_it() {
        let (region, unnamed) = Region::unnamed().unwrap();
        assert_eq!((region.processes(), region.rejected(), region.lost()), (vec![], 0, 0));
        let claimed = Region::open(unnamed.path()).unwrap();
        claimed.claim().unwrap();
        assert_eq!((region.processes(), region.lost()), (vec![], 1));
        let file = File::options().write(true).open(unnamed.path()).unwrap();
        assert!(file.set_len(0).is_err());
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xff; LENGTH], 0).unwrap();
        assert_eq!((region.processes(), region.lost()), (vec![], SLOTS as u64));
        assert!(matches!(Region::open(unnamed.path()), Err(RegionError::Foreign)));
    }

    #[test]
    fn claims_fail_when_all_slots_are_taken() {
        let (_folder, _, region) = region();
        for pid in 1..=SLOTS as u32 {
            region.claim().unwrap().begin(pid, b"x", Span::ZERO);
        }
        assert!(region.claim().is_none());
        assert_eq!((region.processes().len(), region.rejected()), (SLOTS, 1));
    }

    #[test]
    fn a_file_that_is_not_a_region_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("region");
        assert!(matches!(Region::open(&path), Err(RegionError::System(_))));
        for length in [0, LENGTH as u64] {
            File::create(&path).unwrap().set_len(length).unwrap();
            assert!(matches!(Region::open(&path), Err(RegionError::Foreign)), "{length}");
        }
        assert!(matches!(Region::create(&path), Err(RegionError::System(_))));
    }
}
