//! Versions of a value that several processes change without a lock: see `protocol.md`.
//!
//! Each version is a file that never changes, and a shared word names the latest one. `model`
//! checks the protocol.

#[cfg(all(test, loom))]
mod model;

use crate::claim::Word;

/// Files with versions.
pub(crate) trait Files {
    /// The content of a version.
    type Content;
    /// The reason why a file cannot be used.
    type Error;

    /// Reads a version.
    fn read(&self, version: u64) -> Result<Self::Content, Self::Error>;
    /// Writes a version that no file has.
    fn create(&self, version: u64, content: &Self::Content) -> Result<(), Self::Error>;
    /// Removes a version if its file exists.
    fn remove(&self, version: u64);
}

/// The versions in some files, of which a word names the latest one. Zero names none.
#[derive(Debug)]
pub(crate) struct Versions<'a, W, F> {
    pub(crate) latest: &'a W,
    pub(crate) files: &'a F,
}

impl<W: Word, F: Files> Versions<'_, W, F> {
    /// Reads the latest version. Returns `None` if that is still the known one.
    ///
    /// # Errors
    /// If its file cannot be read although it is the latest one.
    pub(crate) fn read(&self, known: u64) -> Result<Option<(u64, F::Content)>, F::Error> {
        loop {
            let latest = self.latest.read();
            if latest == known {
                return Ok(None);
            }
            let read = self.files.read(latest);
            // If it was replaced, its file may have been removed.
            if self.latest.read() == latest {
                return read.map(|content| Some((latest, content)));
            }
        }
    }

    /// Replaces a version by the next one, whose name no other version has. Returns `false` if
    /// another process was faster: nothing has changed then.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn replace(&self, from: u64, to: u64, content: &F::Content) -> Result<bool, F::Error> {
        self.files.create(to, content)?;
        let is_latest = self.latest.replace(from, to);
        self.files.remove(if is_latest { from } else { to });
        Ok(is_latest)
    }
}
