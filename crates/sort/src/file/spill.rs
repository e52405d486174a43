//! Temporary storage for data that does not fit into memory: files without a name, which vanish
//! with the process.
//!
//! They look like one file but are a sequence of segments, so that space can be freed one segment
//! at a time while others are being read. Punching holes into one file would not work on every file
//! system, and would block readers of that file.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustix::fs::Mode;
use sys::files::{self, Draft};

use super::ALIGNMENT;
use super::folder::Folder;
use super::reclaim::FileReclaimer;
use super::uncached::Uncached;
use crate::error::SortError;

/// The size of the first segments in bytes.
const SMALLEST: u64 = 64 << 20;
/// The number of segments of equal size. Later ones are larger, since a process can open only some
/// hundreds of files.
const ALIKE: u64 = 32;
/// The factor by which they are larger.
const GROWTH: u64 = 4;

/// A sequence of temporary files that looks like one file.
pub struct Spill {
    folder: Folder,
    segments: RwLock<Vec<Segment>>,
    reclaimer: Mutex<Option<FileReclaimer>>,
}

/// One of the files.
#[derive(Default)]
struct Segment {
    /// `None` before the first write and after the whole segment was freed.
    file: Option<Arc<Uncached>>,
    freed: u64,
}

impl Spill {
    /// Creates empty storage in this folder. Removes leftovers of killed processes from the folder.
    ///
    /// # Errors
    /// Returns an error if no file can be created.
    pub fn create(folder: &Path) -> Result<Spill, SortError> {
        let failed = |why| SortError::Temporary { folder: folder.to_owned(), why };
        let opened = files::Folder::open(folder).map_err(failed)?;
        files::remove_leftovers(&opened);
        let first = Arc::new(create_file(&opened).map_err(failed)?);
        let segments = RwLock::new(vec![Segment { file: Some(first), freed: 0 }]);
        Ok(Spill { folder: Folder::new(opened), segments, reclaimer: Mutex::new(None) })
    }

    /// Announces the number of bytes to be written, to detect a full disk early.
    ///
    /// # Errors
    /// Returns an error if there is not enough space.
    pub fn expect(&self, length: u64) -> Result<(), SortError> {
        let folder = self.folder.path().to_owned();
        self.folder.expect(length).map_err(|why| SortError::Temporary { folder, why })
    }

    /// Writes all bytes at this position for the first time. Position, length and memory must be
    /// [aligned](super::ALIGNMENT).
    ///
    /// # Errors
    /// Returns an error from the system; for a full disk, with the folder and the progress so far.
    pub fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        if !place.is_multiple_of(ALIGNMENT as u64) || !bytes.len().is_multiple_of(ALIGNMENT) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "writes to a temporary file must be aligned"));
        }
        for part in parts(place, bytes.len() as u64) {
            let file = self.file_to_write(part.segment)?;
            self.folder.write_at(&file, part.place, &bytes[part.offset..][..part.length])?;
        }
        Ok(())
    }

    /// Fills the memory with the bytes written at this position. Access is slower unless position,
    /// length and memory are [aligned](super::ALIGNMENT).
    ///
    /// # Errors
    /// Returns an error from the system, or if the bytes were not written or have been freed.
    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::UnexpectedEof, format!("nothing was written at byte {place}"));
        for part in parts(place, into.len() as u64) {
            let file = self.file(part.segment).ok_or_else(missing)?;
            if file.read_at(part.place, &mut into[part.offset..][..part.length])? < part.length {
                return Err(missing());
            }
        }
        Ok(())
    }

    /// Marks bytes as no longer needed, so that their space is freed later. Position and length
    /// must be [aligned](super::ALIGNMENT). Each written byte may be freed once, and not written
    /// again.
    pub fn free(&self, place: u64, length: u64) {
        for part in parts(place, length) {
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

    /// Returns the file of this segment; creates it if necessary.
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
            None if *freed > 0 => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "freed space cannot be written again"))
            }
            None => {
                let created = create_file(&self.folder.opened).map_err(|why| self.folder.explain(why))?;
                Ok(Arc::clone(file.insert(Arc::new(created))))
            }
        }
    }

    /// Frees a file in the background, or directly if there can be no thread.
    fn reclaim(&self, file: Arc<Uncached>) {
        let mut reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
        if reclaimer.is_none() {
            *reclaimer = FileReclaimer::start();
        }
        if let Some(reclaimer) = &*reclaimer {
            reclaimer.reclaim(file);
        }
    }
}

/// Waits until all space has been freed.
impl Drop for Spill {
    fn drop(&mut self) {
        let reclaimer = self.reclaimer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.segments.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        if let Some(reclaimer) = reclaimer {
            reclaimer.finish();
        }
    }
}

/// Creates a file that will never have a name.
fn create_file(folder: &files::Folder) -> io::Result<Uncached> {
    Draft::create(folder, Mode::RUSR | Mode::WUSR)?.into_unnamed().map(Uncached::new)
}

/// The size of the segment with this index.
fn size(segment: usize) -> u64 {
    SMALLEST.saturating_mul(GROWTH.saturating_pow((segment as u64 / ALIKE) as u32))
}

/// The segment of a byte, and the position in it.
fn locate(place: u64) -> (usize, u64) {
    let (mut first, mut rest) = (0, place);
    while rest >= ALIKE.saturating_mul(size(first)) {
        rest -= ALIKE * size(first);
        first += ALIKE as usize;
    }
    (first + (rest / size(first)) as usize, rest % size(first))
}

/// The part of a read or write that lies in one segment.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    segment: usize,
    place: u64,
    /// The offset in the memory.
    offset: usize,
    length: usize,
}

/// Splits a read or write at the boundaries of segments.
fn parts(place: u64, length: u64) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (segment, at) = locate(place + done);
        let part = (length - done).min(size(segment) - at);
        let offset = done as usize;
        done += part;
        (part > 0).then_some(Part { segment, place: at, offset, length: part as usize })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_segment_and_segments_are_contiguous() {
        let mut place = 0;
        for segment in 0..400 {
            assert_eq!(locate(place), (segment, 0));
            place += size(segment);
            assert_eq!(locate(place - 1), (segment, size(segment) - 1));
        }
    }

    #[test]
    fn accesses_across_segments_are_split() {
        let parts: Vec<Part> = parts(SMALLEST - 4096, SMALLEST + 8192).collect();
        let part = |segment, place, offset, length| Part { segment, place, offset, length };
        let (unit, small) = (4096, SMALLEST as usize);
        assert_eq!(parts, [part(0, SMALLEST - 4096, 0, unit), part(1, 0, unit, small), part(2, 0, unit + small, unit)]);
    }

    #[test]
    fn a_tebibyte_needs_few_files() {
        assert_eq!(locate(1 << 40).0, 165);
    }
}
