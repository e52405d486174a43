//! Memory that several processes have in common: a file, mapped.
//!
//! Whatever is in such memory may have been written by anybody who may write to the file, at any time. So it is only
//! ever seen as types for which every pattern of bytes is a value, and a change at any moment no surprise: [`Plain`].

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A type that memory of unknown content can be seen as, while others write to it.
///
/// # Safety
/// The type consists of nothing but atomic integers, and of padding; its layout is fixed (`repr(C)` or
/// `repr(transparent)`).
pub unsafe trait Plain: Sync {}

// SAFETY: an atomic integer.
unsafe impl Plain for AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl Plain for AtomicU64 {}

/// A file in this process's memory, from its beginning on, shared with all who have mapped it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is an address range that belongs to this value alone, and all that can be reached through it is `Sync`.
unsafe impl Send for Mapping {}
// SAFETY: as above; there is nothing that a reference allows but to look at values that are `Sync`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file, for reading and writing.
    ///
    /// The file must not become shorter afterwards: who touches what is no longer there is killed by SIGBUS. Where that
    /// is to be feared, seal the file.
    ///
    /// # Errors
    /// The kernel's, where the file cannot be mapped: it is no regular file, or not open for reading and writing.
    pub fn new(file: impl AsFd, length: NonZeroUsize) -> io::Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a fixed address the kernel takes one where nothing is.
        let start = unsafe { mmap(std::ptr::null_mut(), length.get(), access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, length: length.get() })
    }

    /// So many values one behind the other, the first of them `offset` bytes from the beginning. Nothing where they would
    /// not lie within the memory, or not at addresses for them.
    pub fn slice<T: Plain>(&self, offset: usize, count: usize) -> Option<&[T]> {
        let end = size_of::<T>().checked_mul(count)?.checked_add(offset)?;
        let start = self.start.as_ptr().wrapping_add(offset).cast::<T>();
        if end > self.length || !start.is_aligned() {
            return None;
        }
        // SAFETY: the range lies within the mapping, which lives as long as `self` is borrowed; its start is aligned and
        // not null. By `Plain`, any bytes are values, and all that happens to them, by whomever, is by atomic access.
        Some(unsafe { std::slice::from_raw_parts(start, count) })
    }

    /// The value that is `offset` bytes from the beginning. Nothing where [`Mapping::slice`] gives nothing.
    pub fn get<T: Plain>(&self, offset: usize) -> Option<&T> {
        self.slice(offset, 1)?.first()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, is unmapped only here, and no reference into it outlives `self`.
        // It fails only for ranges that are none.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn mapped(length: usize) -> (std::os::fd::OwnedFd, Mapping) {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, length as u64).unwrap();
        let mapping = Mapping::new(&file, NonZeroUsize::new(length).unwrap()).unwrap();
        (file, mapping)
    }

    #[test]
    fn what_is_written_through_one_mapping_is_seen_through_another() {
        let (file, one) = mapped(64);
        let other = Mapping::new(&file, NonZeroUsize::new(64).unwrap()).unwrap();
        one.get::<AtomicU64>(8).unwrap().store(7, SeqCst);
        assert_eq!(other.get::<AtomicU64>(8).unwrap().load(SeqCst), 7);
    }

    #[test]
    fn what_lies_outside_or_askew_is_not_there() {
        let (_, mapping) = mapped(64);
        assert!(mapping.slice::<AtomicU64>(0, 8).is_some());
        assert!(mapping.slice::<AtomicU64>(64, 0).is_some());
        for (offset, count) in [(0, 9), (8, 8), (64, 1), (72, 0), (4, 1), (usize::MAX, 1), (0, usize::MAX)] {
            assert!(mapping.slice::<AtomicU64>(offset, count).is_none(), "{offset}, {count}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_mapped() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(Mapping::new(reader, NonZeroUsize::MIN).is_err());
    }
}
