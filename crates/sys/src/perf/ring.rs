//! Memory into which the kernel writes the records of an event.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use rustix::param::page_size;

/// The offset of `data_head` in the first page.
const HEAD: usize = 1024;

/// The kernel's behaviour if a ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    /// It overwrites the oldest records.
    Overwrite,
    /// It drops new records.
    Drop,
}

/// The records of an event. They are read as words of 8 bytes, since the kernel aligns them so.
#[derive(Debug)]
pub(super) struct Ring {
    /// A page of the kernel's notes, and then the records.
    memory: *const u8,
    /// The bytes of the records: a power of two.
    size: usize,
    _event: OwnedFd,
}

// SAFETY: the memory is mapped as long as the ring exists, and is only read, atomically.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Lets the kernel write into `size` bytes: a power of two, of at least a page.
    pub(super) fn new(event: OwnedFd, size: usize, when_full: WhenFull) -> io::Result<Ring> {
        // The kernel respects what has been read only if it could be noted.
        let protection = match when_full {
            WhenFull::Overwrite => libc::PROT_READ,
            WhenFull::Drop => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: new memory, of which no other code knows.
        let memory =
            unsafe { libc::mmap(null_mut(), page_size() + size, protection, libc::MAP_SHARED, event.as_raw_fd(), 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { memory: memory.cast(), size, _event: event })
    }

    /// The bytes for records.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The bytes that the kernel has written so far. Later reads see at least these.
    pub(super) fn head(&self) -> u64 {
        self.at(HEAD).load(Acquire)
    }

    /// The word that begins after so many written bytes, a multiple of 8.
    pub(super) fn word(&self, written: u64) -> u64 {
        self.at(page_size() + (written as usize & (self.size - 1))).load(Relaxed)
    }

    fn at(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < page_size() + self.size);
        // SAFETY: the word is aligned and in the mapped memory, whose last offset is a multiple of
        // 8, and the memory stays mapped for `self`. The kernel writes it as a whole.
        unsafe { &*self.memory.add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no reference to it outlives the ring.
        unsafe { libc::munmap(self.memory.cast_mut().cast(), page_size() + self.size) };
    }
}
