//! Whole pages of memory of one's own: what direct I/O asks for, and what is handed from thread to thread without copying.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// So many bytes from the beginning of a page on, zero at first. They lie where no allocator's block does, and go back to the kernel
/// when they are dropped.
pub struct Pages {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns its bytes, as a `Box<[u8]>` does.
unsafe impl Send for Pages {}
// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for Pages {}

impl Pages {
    /// As many bytes as asked for, which may be none.
    ///
    /// # Errors
    /// The kernel's, where there is no room for them.
    pub fn new(length: usize) -> io::Result<Pages> {
        if length == 0 {
            return Ok(Pages { start: NonNull::dangling(), length });
        }
        if length > isize::MAX as usize {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without a fixed address the kernel takes one where nothing is.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), length, access, MapFlags::PRIVATE) }?;
        Ok(Pages { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, length })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the range was mapped by `new`, is unmapped only here, and nobody borrows from it any more. It fails only for
            // ranges that are none.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are mapped as long as `self` lives, written by the kernel with zeroes, and only `deref_mut` lets anybody
        // change them. Where there are none the address is aligned and not null, which is all that it has to be.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; who borrows `self` mutably is alone.
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
    fn bytes_begin_with_a_page_are_zero_and_keep_what_is_written() {
        let mut pages = Pages::new(5000).unwrap();
        assert_eq!(pages.as_ptr() as usize % 4096, 0);
        assert!(pages.iter().all(|&byte| byte == 0));
        assert_eq!(pages.len(), 5000);
        pages[4999] = 7;
        let elsewhere = std::thread::spawn(move || pages[4999]).join().unwrap();
        assert_eq!(elsewhere, 7);
    }

    #[test]
    fn no_bytes_are_no_pages() {
        assert!(Pages::new(0).unwrap().is_empty());
    }

    #[test]
    fn more_than_there_can_be_is_an_error() {
        assert!(Pages::new(usize::MAX).is_err());
        assert!(Pages::new(isize::MAX as usize).is_err());
    }
}
