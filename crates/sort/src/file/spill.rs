//! What does not fit into memory: temporary files that have no name, so that they are gone with the process, however that ends.
//!
//! It looks like one file, and is a row of them: what is not needed any more is given back a file at a time, while the rest is being
//! read. A hole could be punched into one file instead, but not on every file system, and nobody can read that file meanwhile.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustix::fs::Mode;

use super::folder::Folder;
use super::reclaim::FileReclaimer;
use super::uncached::Uncached;
use super::{ALIGNMENT, IoMode, unnamed};
use crate::error::SortError;

/// How many bytes the first files have.
const SMALLEST: u64 = 64 << 20;
/// After so many files, larger ones come, since a process can only have some hundreds open.
const ALIKE: u64 = 32;
/// By how much they are larger.
const GROWTH: u64 = 4;

/// Temporary files, seen as one.
pub struct Spill {
    folder: Arc<Folder>,
    io_mode: IoMode,
    segments: RwLock<Vec<Segment>>,
    written: AtomicU64,
    /// How much will be written; 0 if that was not said.
    expected: AtomicU64,
    reclaimer: Mutex<Option<FileReclaimer>>,
}

/// One of the files.
#[derive(Default)]
struct Segment {
    /// Nothing where nothing was written yet, or all has been given back.
    file: Option<Arc<Uncached>>,
    freed: u64,
}

impl Spill {
    /// An empty one in this folder, from which leftovers of killed processes are removed.
    ///
    /// # Errors
    /// Where none can be made.
    pub fn create(folder: &Path) -> Result<Spill, SortError> {
        let failed = |why| SortError::Temporary { folder: folder.to_owned(), why };
        let opened = Arc::new(Folder::open(folder).map_err(failed)?);
        unnamed::remove_leftovers(&opened);
        let first = Arc::new(create_file(&opened).map_err(failed)?);
        Ok(Spill {
            folder: opened,
            io_mode: first.io_mode(),
            segments: RwLock::new(vec![Segment { file: Some(first), freed: 0 }]),
            written: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            reclaimer: Mutex::new(None),
        })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How it is read and written.
    pub fn io_mode(&self) -> IoMode {
        self.io_mode
    }

    /// Says how many bytes will be written, before they are, so that a disk without room for them is found out at once.
    ///
    /// # Errors
    /// Where there is no room.
    pub fn expect(&self, length: u64) -> Result<(), SortError> {
        self.expected.store(length, Ordering::Relaxed);
        let folder = self.folder.path();
        self.folder.check_room(length).map_err(|why| SortError::Temporary { folder: folder.to_owned(), why })
    }

    /// Writes all of it to this place, for the first time. Place, length and memory are [aligned](super::ALIGNMENT).
    ///
    /// # Errors
    /// What the system says; a full disk with its folder and how far it went.
    pub fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        if !place.is_multiple_of(ALIGNMENT as u64) || !bytes.len().is_multiple_of(ALIGNMENT) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "what is spilled must be aligned"));
        }
        for part in Parts::new(place, bytes.len() as u64) {
            let file = self.file_to_write(part.segment)?;
            let written = file.write_at(part.place, &bytes[part.offset..][..part.length]);
            written.map_err(|why| self.explain(why))?;
        }
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Fills the memory with what was written there. Place, length and memory are [aligned](super::ALIGNMENT), or it takes longer.
    ///
    /// # Errors
    /// What the system says; that less was written, or it was given back.
    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::UnexpectedEof, format!("nothing was written at byte {place}"));
        for part in Parts::new(place, into.len() as u64) {
            let file = self.file(part.segment).ok_or_else(missing)?;
            if file.read_at(part.place, &mut into[part.offset..][..part.length])? < part.length {
                return Err(missing());
            }
        }
        Ok(())
    }

    /// Says that so many bytes from this place on are not needed any more: the file system gets their room again, later. Place and length are
    /// [aligned](super::ALIGNMENT). Each byte that was written is freed once at the most, and not written again.
    pub fn free(&self, place: u64, length: u64) {
        for part in Parts::new(place, length) {
            let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
            let Some(segment) = segments.get_mut(part.segment) else { continue };
            segment.freed += part.length as u64;
            if segment.freed < size(part.segment) {
                continue;
            }
            let file = segment.file.take();
            drop(segments);
            if let Some(file) = file {
                self.reclaim(file);
            }
        }
    }

    fn file(&self, segment: usize) -> Option<Arc<Uncached>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).get(segment)?.file.clone()
    }

    /// The file of this segment, which is made if it is not there yet.
    fn file_to_write(&self, segment: usize) -> io::Result<Arc<Uncached>> {
        if let Some(file) = self.file(segment) {
            return Ok(file);
        }
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        if segments.len() <= segment {
            segments.resize_with(segment + 1, Segment::default);
        }
        let Segment { file, freed } = &mut segments[segment];
        match file {
            Some(file) => Ok(Arc::clone(file)),
            None if *freed > 0 => Err(io::Error::new(io::ErrorKind::InvalidInput, "what was freed is written again")),
            None => Ok(Arc::clone(file.insert(Arc::new(create_file(&self.folder).map_err(|why| self.explain(why))?)))),
        }
    }

    /// Has a file given back. Where there can be no thread for that, it is done here.
    fn reclaim(&self, file: Arc<Uncached>) {
        let mut reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
        if reclaimer.is_none() {
            *reclaimer = FileReclaimer::start();
        }
        if let Some(reclaimer) = &*reclaimer {
            reclaimer.reclaim(file);
        }
    }

    fn explain(&self, why: io::Error) -> io::Error {
        self.folder.explain(why, self.written.load(Ordering::Relaxed), self.expected.load(Ordering::Relaxed))
    }
}

/// Waits until everything has been given back.
impl Drop for Spill {
    fn drop(&mut self) {
        let reclaimer = self.reclaimer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.segments.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        if let Some(reclaimer) = reclaimer {
            reclaimer.finish();
        }
    }
}

/// A file without a name, for good.
fn create_file(folder: &Arc<Folder>) -> io::Result<Uncached> {
    let (file, unnamed) = unnamed::create(folder, Mode::RUSR | Mode::WUSR)?;
    unnamed.without_name();
    Ok(Uncached::new(file))
}

/// How large a segment is, from its number.
fn size(segment: usize) -> u64 {
    SMALLEST.saturating_mul(GROWTH.saturating_pow((segment as u64 / ALIKE) as u32))
}

/// In which segment a byte is, and where in it.
fn locate(place: u64) -> (usize, u64) {
    let (mut first, mut rest) = (0, place);
    while rest >= ALIKE.saturating_mul(size(first)) {
        rest -= ALIKE * size(first);
        first += ALIKE as usize;
    }
    (first + (rest / size(first)) as usize, rest % size(first))
}

/// A part of what is read or written that lies in one segment.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    segment: usize,
    place: u64,
    /// Where in the memory.
    offset: usize,
    length: usize,
}

/// The parts of what is read or written.
struct Parts {
    place: u64,
    offset: u64,
    left: u64,
}

impl Parts {
    fn new(place: u64, length: u64) -> Parts {
        Parts { place, offset: 0, left: length }
    }
}

impl Iterator for Parts {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        if self.left == 0 {
            return None;
        }
        let (segment, place) = locate(self.place);
        let length = self.left.min(size(segment) - place);
        let part = Part { segment, place, offset: self.offset as usize, length: length as usize };
        self.place += length;
        self.offset += length;
        self.left -= length;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_segment_and_they_follow_each_other() {
        let mut place = 0;
        for segment in 0..400 {
            assert_eq!(locate(place), (segment, 0));
            place += size(segment);
            assert_eq!(locate(place - 1), (segment, size(segment) - 1));
        }
    }

    #[test]
    fn what_lies_across_segments_is_taken_in_parts() {
        let parts: Vec<Part> = Parts::new(SMALLEST - 4096, SMALLEST + 8192).collect();
        let part = |segment, place, offset, length| Part { segment, place, offset, length };
        let (unit, small) = (4096, SMALLEST as usize);
        assert_eq!(parts, [part(0, SMALLEST - 4096, 0, unit), part(1, 0, unit, small), part(2, 0, unit + small, unit)]);
    }

    #[test]
    fn a_tebibyte_takes_few_files() {
        assert_eq!(locate(1 << 40).0, 165);
    }
}
