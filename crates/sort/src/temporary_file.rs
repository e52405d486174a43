//! The temporary file of a sort: created on demand, with an allocator for its space.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::budget::aligned_up;
use crate::error::SortError;
use crate::file::spill::Spill;

/// A temporary file that may not exist yet.
pub(crate) struct TemporaryFile<'s> {
    pub(crate) folder: &'s Path,
    spill: OnceLock<Spill>,
    next: AtomicU64,
}

impl<'s> TemporaryFile<'s> {
    /// Prepares a file in this folder without creating it.
    pub(crate) fn new(folder: &'s Path) -> TemporaryFile<'s> {
        TemporaryFile { folder, spill: OnceLock::new(), next: AtomicU64::new(0) }
    }

    /// Allocates this many bytes, rounded up to the alignment. Returns their position.
    pub(crate) fn allocate(&self, bytes: usize) -> u64 {
        self.next.fetch_add(aligned_up(bytes) as u64, Relaxed)
    }

    /// The file, which the first call creates.
    pub(crate) fn spill(&self) -> Result<&Spill, SortError> {
        match self.spill.get() {
            Some(spill) => Ok(spill),
            // Junctions make the first call, one at a time. If two did at once, the second file
            // would be dropped.
            None => Spill::create(self.folder).map(|spill| self.spill.get_or_init(|| spill)),
        }
    }
}

/// Writes the name for messages.
impl fmt::Display for TemporaryFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the temporary file in {}", self.folder.display())
    }
}
