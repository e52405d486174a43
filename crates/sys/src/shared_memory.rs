//! Memory that several processes have in common: a file, mapped.
//!
//! Whatever is in such memory may have been written by anybody who may write to the file, at any time. So it is only
//! ever seen as types for which every pattern of bytes is a value, and a change at any moment no surprise: [`Plain`].

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
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

// SAFETY: it is an address range, and whatever can be reached through it is `Plain`, which is `Sync`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file, for reading and writing.
    ///
    /// The file must not become shorter afterwards: who touches what is no longer there is killed by SIGBUS. Where that
    /// is to be feared, seal the file.
    ///
    /// # Errors
    /// The kernel's, where the file cannot be mapped: it is no regular file, or not open for reading and writing.
    pub fn new(file: impl AsFd, length: NonZeroUsize) -> io::Result<Arc<Mapping>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a fixed address the kernel takes one where nothing is.
        let start = unsafe { mmap(std::ptr::null_mut(), length.get(), access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Mapping { start, length: length.get() }))
    }

    /// So many values one behind the other, the first of them `offset` bytes from the beginning. Nothing where they would
    /// not lie within the memory, or not at addresses for them.
    pub fn slice<T: Plain>(self: &Arc<Self>, offset: usize, count: usize) -> Option<View<[T]>> {
        let end = size_of::<T>().checked_mul(count)?.checked_add(offset)?;
        let first = self.start.as_ptr().wrapping_add(offset).cast::<T>();
        if end > self.length || !first.is_aligned() {
            return None;
        }
        let values = NonNull::slice_from_raw_parts(NonNull::new(first)?, count);
        Some(View { values, _memory: self.clone() })
    }

    /// The value that is `offset` bytes from the beginning. Nothing where [`Mapping::slice`] gives nothing.
    pub fn get<T: Plain>(self: &Arc<Self>, offset: usize) -> Option<View<T>> {
        let View { values, _memory } = self.slice::<T>(offset, 1)?;
        Some(View { values: values.cast(), _memory })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and is unmapped only here; a `View` keeps `self` from being dropped.
        // It fails only for ranges that are none.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Values in a [`Mapping`], which they keep.
pub struct View<T: ?Sized> {
    /// They lie within the mapping, aligned for their type.
    values: NonNull<T>,
    _memory: Arc<Mapping>,
}

impl<T: Plain> Deref for View<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value lies within the mapping, aligned, and the mapping lives as long as `self`. By `Plain`, any bytes
        // are a value, and all that happens to them, by whomever, is by atomic access.
        unsafe { self.values.as_ref() }
    }
}

impl<T: Plain> Deref for View<[T]> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as above, for each of them.
        unsafe { self.values.as_ref() }
    }
}

// SAFETY: it owns nothing but its part of the mapping, which is `Send` and `Sync`, and gives references to values that
// are `Sync`.
unsafe impl<T: ?Sized + Sync> Send for View<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for View<T> {}

impl<T: ?Sized> fmt::Debug for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn mapped(length: usize) -> (std::os::fd::OwnedFd, Arc<Mapping>) {
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
    fn values_keep_their_memory() {
        let (_, mapping) = mapped(64);
        let value: View<AtomicU64> = mapping.get(0).unwrap();
        drop(mapping);
        value.store(7, SeqCst);
        assert_eq!(value.load(SeqCst), 7);
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
