//! The folder of a file that may need much space.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{fstatfs, fstatvfs};
use rustix::process::geteuid;
use sys::files;

use super::uncached::{Uncached, is_full};

/// The `statfs` types of btrfs, ZFS, bcachefs and F2FS, which compress and may hold more than their
/// free space.
const COMPRESSING: [u32; 4] = [0x9123_683e, 0x2fc1_2fc1, 0xca45_1a4e, 0xf2f5_2010];

/// An open folder, and the number of bytes that its file needs.
pub(super) struct Folder {
    pub(super) opened: files::Folder,
    written: AtomicU64,
    /// 0 if unknown.
    expected: AtomicU64,
}

impl Folder {
    pub(super) fn new(opened: files::Folder) -> Folder {
        Folder { opened, written: AtomicU64::default(), expected: AtomicU64::default() }
    }

    pub(super) fn path(&self) -> &Path {
        self.opened.path()
    }

    /// The free space in bytes; `None` if unknown.
    fn room(&self) -> Option<u64> {
        let kind = fstatfs(&self.opened).ok()?.f_type as u32;
        let about = fstatvfs(&self.opened).ok()?;
        // Some file systems have no limit and report a size of 0.
        let is_known = about.f_blocks > 0 && !COMPRESSING.contains(&kind);
        let blocks = if geteuid().is_root() { about.f_bfree } else { about.f_bavail };
        is_known.then(|| blocks.saturating_mul(about.f_frsize))
    }

    /// Announces the number of bytes to be written. Returns an error if there is certainly not
    /// enough space.
    pub(super) fn expect(&self, needed: u64) -> io::Result<()> {
        self.expected.store(needed, Relaxed);
        match self.room() {
            Some(room) if room < needed => {
                let said = format!("its file system has room for {}, and {} are needed", Size(room), Size(needed));
                Err(io::Error::new(io::ErrorKind::StorageFull, said))
            }
            _ => Ok(()),
        }
    }

    /// Writes all bytes to a file in this folder. See [`Uncached::write_at`].
    pub(super) fn write_at(&self, file: &Uncached, place: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_at(place, bytes).map_err(|why| self.explain(why))?;
        self.written.fetch_add(bytes.len() as u64, Relaxed);
        Ok(())
    }

    /// Adds the progress so far and the expected size to an error about a full file system, and the
    /// limit to one about the size of a file.
    pub(super) fn explain(&self, why: io::Error) -> io::Error {
        if why.kind() == io::ErrorKind::FileTooLarge {
            let said = format!("{why}; `ulimit -f` limits the size of files, and so do file systems");
            return io::Error::new(why.kind(), said);
        }
        if !is_full(&why) {
            return why;
        }
        let [written, expected] = [&self.written, &self.expected].map(|bytes| bytes.load(Relaxed));
        let of = if expected > 0 { format!(" of {}", Size(expected)) } else { String::new() };
        io::Error::new(why.kind(), format!("its file system is full: {why}; {}{of} were written", Size(written)))
    }
}

/// A number of bytes, formatted for users.
struct Size(u64);

impl std::fmt::Display for Size {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => write!(out, "{:.1} {name}", self.0 as f64 / *unit as f64),
            None => write!(out, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_formatted_in_a_suitable_unit() {
        let said: Vec<String> =
            [0, 1023, 1024, 5 << 20, (3 << 30) + (1 << 29)].map(|size| Size(size).to_string()).into();
        assert_eq!(said, ["0 bytes", "1023 bytes", "1.0 KiB", "5.0 MiB", "3.5 GiB"]);
    }
}
