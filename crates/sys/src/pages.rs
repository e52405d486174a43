//! Whole pages of private memory, for direct I/O and for passing between threads without copying.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};

/// Bytes that begin at a page boundary, initially zero. They share no page with any block of an
/// allocator, and are returned to the kernel when dropped.
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns its bytes, as `Box<[u8]>` does.
unsafe impl Send for Pages {}
// SAFETY: a shared reference only allows reading the bytes.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates this many bytes, possibly zero.
    pub fn new(length: usize) -> io::Result<Pages> {
        if length == 0 {
            return Ok(Pages { start: NonNull::dangling(), length });
        }
        if length > isize::MAX as usize {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a fixed address the kernel chooses an unused range.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, access, MapFlags::PRIVATE) }?;
        Ok(Pages { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, length })
    }

    /// Changes the length. The bytes are kept as far as they fit, and are not copied, but their
    /// address may change. If it fails, nothing has changed.
    pub fn resize(&mut self, length: usize) -> io::Result<()> {
        if self.length == 0 || length == 0 {
            *self = Pages::new(length)?;
            return Ok(());
        }
        if length > isize::MAX as usize {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // SAFETY: the range was mapped by `new`, and nothing borrows it. After a success only the
        // new range is used.
        let start = unsafe { mremap(self.start.as_ptr().cast(), self.length, length, MremapFlags::MAYMOVE) }?;
        self.start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        self.length = length;
        Ok(())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the range was mapped by `new`, is unmapped only here, and is no longer
            // borrowed. It fails only for invalid ranges.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped as long as `self` lives, initialized with zeros by the
        // kernel, and only `deref_mut` gives write access. An empty range also has a valid address.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; a mutable borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pages").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_zeroed_and_writable() {
        let mut pages = Pages::new(5000).unwrap();
        assert_eq!(pages.as_ptr() as usize % 4096, 0);
        assert!(pages.iter().all(|&byte| byte == 0));
        assert_eq!(pages.len(), 5000);
        pages[4999] = 7;
        let elsewhere = std::thread::spawn(move || pages[4999]).join().unwrap();
        assert_eq!(elsewhere, 7);
    }

    #[test]
    fn no_bytes_need_no_pages() {
        assert!(Pages::new(0).unwrap().is_empty());
    }

    #[test]
    fn a_resize_keeps_the_bytes_that_fit() {
        let mut pages = Pages::new(0).unwrap();
        for length in [10_000, 5_000_000, 6_000, 0, 4_096, 8_192] {
            let kept = pages.iter().take_while(|&&byte| byte == 7).count();
            pages.resize(length).unwrap();
            assert_eq!(pages.len(), length);
            assert!(pages[..kept.min(length)].iter().all(|&byte| byte == 7));
            pages.fill(7);
        }
        assert!(pages.resize(usize::MAX).is_err());
        assert!(pages.len() == 8_192 && pages[8_191] == 7);
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        assert!(Pages::new(usize::MAX).is_err());
        assert!(Pages::new(isize::MAX as usize).is_err());
    }
}
