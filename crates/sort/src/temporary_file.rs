//! The temporary file of a sort, made when it is needed, and where in it there is room.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::budget::aligned_up;
use crate::error::SortError;
use crate::file::spill::Spill;

/// A temporary file that may not be there yet.
pub(crate) struct TemporaryFile<'s> {
    folder: &'s Path,
    spill: OnceLock<Spill>,
    next: AtomicU64,
}

impl<'s> TemporaryFile<'s> {
    /// None yet; it would be in this folder.
    pub(crate) fn new(folder: &'s Path) -> TemporaryFile<'s> {
        TemporaryFile { folder, spill: OnceLock::new(), next: AtomicU64::new(0) }
    }

    /// Room for so many bytes, rounded up to the alignment: where it is.
    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        self.next.fetch_add(aligned_up(bytes) as u64, Relaxed)
    }

    /// Makes the file, if it is not there.
    pub(crate) fn create(&self) -> Result<(), SortError> {
        if self.spill.get().is_none() {
            // One junction after the other comes here; were there two at once, one's file would go as it came.
            let _ = self.spill.set(Spill::create(self.folder)?);
        }
        Ok(())
    }

    /// The file.
    pub(crate) fn spill(&self) -> Result<&Spill, SortError> {
        self.spill.get().ok_or_else(|| SortError::Unsupported("there is no temporary file".to_owned()))
    }

    /// Another file in the same folder.
    pub(crate) fn another(&self) -> Result<Spill, SortError> {
        Spill::create(self.folder)
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> String {
        format!("the temporary file in {}", self.folder.display())
    }
}
