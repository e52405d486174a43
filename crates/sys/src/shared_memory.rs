//! Memory shared by several processes: a mapped file.
//!
//! [`ReadOnlyWords`] are for a process that only reads what others write.
//!
//! The content of such memory may be written at any time by any process with write access to the
//! file. So it is only viewed as types for which every bit pattern is valid and a change at any
//! time is allowed: [`Plain`].

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::futex::{self, Scope, WaitResult};

/// A type as which memory of unknown content can be viewed while other processes write to it.
///
/// # Safety
/// The type has atomic integers and padding only, laid out by `repr(C)` or `repr(transparent)`.
pub unsafe trait Plain: Sync {}

// SAFETY: an atomic integer.
unsafe impl Plain for AtomicU32 {}
// SAFETY: an atomic integer.
unsafe impl Plain for AtomicU64 {}
// SAFETY: as each of its items.
unsafe impl<T: Plain> Plain for [T] {}

/// The beginning of a file in the memory of this process, shared with all processes that map it.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is an address range, and everything accessible through it is `Plain`, which is `Sync`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of a file for reading and writing.
    ///
    /// The file must not become shorter afterwards: an access beyond its end raises SIGBUS. If that
    /// is possible, seal the file. The file is regular, and open for reading and writing.
    pub fn new(file: impl AsFd, length: NonZeroUsize) -> io::Result<Arc<Mapping>> {
        Mapping::with_access(file, length, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn with_access(file: impl AsFd, length: NonZeroUsize, access: ProtFlags) -> io::Result<Arc<Mapping>> {
        // SAFETY: without a fixed address the kernel chooses an unused range.
        let start = unsafe { mmap(std::ptr::null_mut(), length.get(), access, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arc::new(Mapping { start, length: length.get() }))
    }

    /// A slice of `count` values, the first of them `offset` bytes from the beginning. Returns
    /// `None` if they are not within the mapping or not aligned.
    pub fn slice<T: Plain>(self: &Arc<Self>, offset: usize, count: usize) -> Option<View<[T]>> {
        let end = size_of::<T>().checked_mul(count)?.checked_add(offset)?;
        let first = self.start.as_ptr().wrapping_add(offset).cast::<T>();
        if end > self.length || !first.is_aligned() {
            return None;
        }
        let values = NonNull::slice_from_raw_parts(NonNull::new(first)?, count);
        Some(View { values, _memory: self.clone() })
    }

    /// The value that is `offset` bytes from the beginning. `None` as for [`Mapping::slice`].
    pub fn get<T: Plain>(self: &Arc<Self>, offset: usize) -> Option<View<T>> {
        let View { values, _memory } = self.slice::<T>(offset, 1)?;
        Some(View { values: values.cast(), _memory })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` and is unmapped only here; a `View` keeps `self`
        // alive. The call fails only for invalid ranges.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// Values in a [`Mapping`], which they keep alive.
pub struct View<T: ?Sized> {
    /// They are within the mapping and aligned for their type.
    values: NonNull<T>,
    _memory: Arc<Mapping>,
}

impl<T: Plain + ?Sized> Deref for View<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the values are within the mapping and aligned, and the mapping lives as long as
        // `self`. By `Plain`, any bits are valid, and all processes access them atomically.
        unsafe { self.values.as_ref() }
    }
}

// SAFETY: the mapping is `Send` and `Sync`, and the values that it lends are `Sync`.
unsafe impl<T: ?Sized + Sync> Send for View<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for View<T> {}

impl<T: ?Sized> fmt::Debug for View<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

/// The words at the beginning of a file that other processes write and this one only reads.
#[derive(Debug)]
pub struct ReadOnlyWords<const COUNT: usize>(View<[AtomicU64]>);

impl<const COUNT: usize> ReadOnlyWords<COUNT> {
    /// Maps them for reading.
    ///
    /// # Errors
    /// If the file cannot be mapped. It must not become shorter, as for [`Mapping::new`].
    pub fn new(file: impl AsFd) -> io::Result<ReadOnlyWords<COUNT>> {
        let length = NonZeroUsize::new(COUNT * size_of::<u64>()).ok_or(io::ErrorKind::InvalidInput)?;
        let mapping = Mapping::with_access(file, length, ProtFlags::READ)?;
        Ok(ReadOnlyWords(mapping.slice(0, COUNT).ok_or(io::ErrorKind::InvalidInput)?))
    }

    /// A word. Implies no order of other accesses: in memory that cannot be written, only such
    /// loads are allowed.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline]
    pub fn load(&self, place: usize) -> u64 {
        self.0[place].load(Relaxed)
    }

    /// Blocks until woken if the low half of a word still has the value `expected`, at most until
    /// `CLOCK_MONOTONIC` reaches `deadline`: [`futex::wait`].
    ///
    /// # Panics
    /// If there is no such word.
    pub fn wait(&self, place: usize, expected: u32, deadline: Duration) -> WaitResult {
        futex::wait(&self.0[place], expected, Some(deadline), Scope::Shared)
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
    fn writes_through_one_mapping_are_visible_through_another() {
        let (file, one) = mapped(64);
        let other = Mapping::new(&file, NonZeroUsize::new(64).unwrap()).unwrap();
        one.get::<AtomicU64>(8).unwrap().store(7, SeqCst);
        assert_eq!(other.get::<AtomicU64>(8).unwrap().load(SeqCst), 7);
    }

    #[test]
    fn values_keep_their_mapping_alive() {
        let (_, mapping) = mapped(64);
        let value: View<AtomicU64> = mapping.get(0).unwrap();
        drop(mapping);
        value.store(7, SeqCst);
        assert_eq!(value.load(SeqCst), 7);
    }

    #[test]
    fn values_outside_or_unaligned_are_none() {
        let (_, mapping) = mapped(64);
        assert!(mapping.slice::<AtomicU64>(0, 8).is_some());
        assert!(mapping.slice::<AtomicU64>(64, 0).is_some());
        for (offset, count) in [(0, 9), (8, 8), (64, 1), (72, 0), (4, 1), (usize::MAX, 1), (0, usize::MAX)] {
            assert!(mapping.slice::<AtomicU64>(offset, count).is_none(), "{offset}, {count}");
        }
    }

    #[test]
    fn a_process_that_only_reads_sees_writes_and_is_woken() {
        let (file, mapping) = mapped(64);
        let words = ReadOnlyWords::<2>::new(&file).unwrap();
        let word: View<AtomicU64> = mapping.get(8).unwrap();
        word.store(7 << 32 | 5, SeqCst);
        assert_eq!((words.load(0), words.load(1)), (0, 7 << 32 | 5));
        assert_eq!(words.wait(1, 7, Duration::MAX), WaitResult::Changed);
        assert_eq!(words.wait(1, 5, Duration::from_nanos(1)), WaitResult::TimedOut);
        let waiter = std::thread::spawn(move || words.wait(1, 5, Duration::MAX));
        while futex::wake(&*word, 1, Scope::Shared) == 0 {}
        assert_eq!(waiter.join().unwrap(), WaitResult::Woken);
    }

    #[test]
    fn a_pipe_is_not_mapped() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(Mapping::new(reader, NonZeroUsize::MIN).is_err());
    }
}
