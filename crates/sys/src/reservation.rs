//! Reserved address space, with pages that are allocated on first access, and guard pages.

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rustix::mm::{Advice, MprotectFlags, madvise, mprotect};

use crate::errno;

/// The implementation of a guard page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A marker in the page table (`MADV_GUARD_INSTALL`, since Linux 6.13). Their number is
    /// unlimited, but they do not work in locked memory.
    Mark,
    /// Page protection. The kernel keeps each run of pages with the same protection as a mapping,
    /// and a process has at most some 65 000 of these (`vm.max_map_count`), for half the guards.
    Protection,
}

/// `MADV_GUARD_INSTALL`, which older C library headers lack.
const INSTALL: libc::c_int = 102;

/// The size of a page, in bytes.
pub fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            // SAFETY: a query without preconditions. The C library is asked, since Valgrind hides
            // the auxiliary vector that rustix would read.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

/// Readable and writable address space of whole pages. It is initially zero, uses no memory until
/// accessed, and no swap space is reserved for it.
///
/// It hands out no references. Code that accesses memory through its [base](Reservation::base) must
/// not access guards, nor expect to find discarded data.
#[derive(Debug)]
pub struct Reservation {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns address space, which it does not access itself.
unsafe impl Send for Reservation {}
// SAFETY: as above; and the kernel allows threads to change their address space concurrently.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves this many bytes, rounded up to whole pages, and at least one page. Fails if there
    /// is no address space, or if the limit of mappings is reached.
    pub fn new(length: usize) -> io::Result<Reservation> {
        let most = isize::MAX as usize - page_size();
        let length = length.max(1);
        if length > most {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let length = length.next_multiple_of(page_size());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: without a fixed address the kernel chooses an unused range. The C library is
        // called since the sanitizers of the compiler intercept it.
        let base = unsafe { libc::mmap(null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: no other code knows of the memory, and its content is kept. A huge page would
        // span many stacks of which each uses a page. Kernels without huge pages refuse.
        let _ = unsafe { madvise(base, length, Advice::LinuxNoHugepage) };
        Ok(Reservation { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, length })
    }

    /// The start address.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The offset of an address, or `None` if it is outside.
    pub fn offset(&self, address: usize) -> Option<usize> {
        address.checked_sub(self.base.addr().get()).filter(|&offset| offset < self.length)
    }

    /// Checks that a range is within the reservation and consists of whole pages.
    fn part(&self, part: &Range<usize>) -> io::Result<(*mut libc::c_void, usize)> {
        let whole = part.start.is_multiple_of(page_size()) && part.end.is_multiple_of(page_size());
        if !whole || part.start > part.end || part.end > self.length {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range is within the reservation.
        Ok((unsafe { self.base.add(part.start) }.as_ptr().cast(), part.len()))
    }

    /// Turns this range of whole pages into a guard: an access raises SIGSEGV. Its content is lost.
    /// Fails with `EINVAL` for [`Guard::Mark`] if the kernel lacks markers or the memory is locked,
    /// and with `ENOMEM` for [`Guard::Protection`] if the limit of mappings is reached.
    pub fn guard(&self, part: Range<usize>, how: Guard) -> io::Result<()> {
        let (start, length) = self.part(&part)?;
        match how {
            // SAFETY: the memory is owned, and its users know that it may become a guard.
            Guard::Mark => errno::check(unsafe { libc::madvise(start, length, INSTALL) }).map(drop)?,
            // SAFETY: as above.
            Guard::Protection => unsafe { mprotect(start, length, MprotectFlags::empty())? },
        }
        Ok(())
    }

    /// Returns the memory of this range of whole pages to the kernel. It is zero on the next
    /// access. Guards remain guards. Fails for locked memory, which keeps its content.
    pub fn discard(&self, part: Range<usize>) -> io::Result<()> {
        let (start, length) = self.part(&part)?;
        // SAFETY: the memory is owned, and its users know that its content may be lost.
        unsafe { madvise(start, length, Advice::LinuxDontNeed)? };
        Ok(())
    }

    /// Allocates this range of whole pages before it is accessed: cheaper than page by page.
    /// Returns the error of the kernel: `EINVAL` before Linux 5.14, or if there is no memory.
    pub fn populate(&self, part: Range<usize>) -> io::Result<()> {
        let (start, length) = self.part(&part)?;
        // SAFETY: the content is kept.
        unsafe { madvise(start, length, Advice::LinuxPopulateWrite)? };
        Ok(())
    }

    /// The number of bytes from the first page of this range that is in memory to the end of the
    /// range, in whole pages. A page that was swapped out counts as one that was never accessed.
    /// Takes one system call, and a byte of memory per page.
    pub fn used_at_end(&self, part: Range<usize>) -> io::Result<usize> {
        let (start, length) = self.part(&part)?;
        in_memory_at_end(start.addr()..start.addr() + length)
    }
}

/// The same for any memory of the process, of whole pages.
pub fn in_memory_at_end(memory: Range<usize>) -> io::Result<usize> {
    let mut pages = vec![0_u8; memory.len() / page_size()];
    let start = std::ptr::without_provenance_mut(memory.start);
    // SAFETY: there is a byte for each page.
    errno::check(unsafe { libc::mincore(start, memory.len(), pages.as_mut_ptr()) })?;
    let untouched = pages.iter().take_while(|&&page| page & 1 == 0).count();
    Ok(memory.len() - untouched * page_size())
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and is unmapped only here. The call cannot fail.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a byte can be read: a write from an unreadable address is an error and no signal.
    fn is_readable(at: *const u8) -> bool {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors, and the kernel checks the address.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let written = libc::write(ends[1], at.cast(), 1);
            libc::close(ends[0]);
            libc::close(ends[1]);
            written == 1
        }
    }

    /// Both kinds of guards, or only one on kernels without markers.
    fn kinds(reservation: &Reservation) -> Vec<Guard> {
        let page = page_size();
        let marks = reservation.guard(page * 3..page * 4, Guard::Mark).is_ok();
        if marks { vec![Guard::Mark, Guard::Protection] } else { vec![Guard::Protection] }
    }

    #[test]
    fn a_guard_cannot_be_read_and_survives_a_discard() {
        let page = page_size();
        for how in kinds(&Reservation::new(page * 4).unwrap()) {
            let reservation = Reservation::new(page * 4).unwrap();
            let at = |offset: usize| reservation.base().as_ptr().wrapping_add(offset);
            // SAFETY: no guard yet.
            unsafe { at(page * 2).write(7) };
            assert!(is_readable(at(page)));
            reservation.guard(page..page * 2, how).unwrap();
            reservation.discard(0..page * 4).unwrap();
            assert!(!is_readable(at(page)) && !is_readable(at(page * 2 - 1)), "{how:?}");
            assert!(is_readable(at(page - 1)) && is_readable(at(page * 2)));
            // SAFETY: no guard.
            assert_eq!(unsafe { at(page * 2).read() }, 0, "it was discarded");
        }
    }

    #[test]
    fn used_pages_at_the_end_are_counted() {
        let page = page_size();
        let reservation = Reservation::new(page * 8).unwrap();
        let used = || reservation.used_at_end(page..page * 8).unwrap();
        assert_eq!(used(), 0);
        // SAFETY: within it.
        unsafe { reservation.base().add(page * 8 - 1).write(1) };
        assert_eq!(used(), page);
        // SAFETY: within it.
        unsafe { reservation.base().add(page * 4).write(1) };
        assert_eq!(used(), page * 4);
        reservation.discard(page..page * 8).unwrap();
        assert_eq!(used(), 0);
        if reservation.populate(page * 2..page * 3).is_ok() {
            assert_eq!(used(), page * 6);
        }
    }

    #[test]
    fn invalid_ranges_are_refused() {
        let page = page_size();
        let reservation = Reservation::new(1).unwrap();
        assert_eq!(reservation.length(), page);
        for part in [0..1, 1..page, 0..page * 2, page * 2..page * 2] {
            assert!(reservation.guard(part.clone(), Guard::Protection).is_err(), "{part:?}");
            assert!(reservation.discard(part).is_err());
        }
        assert!(Reservation::new(usize::MAX).is_err());
        let base = reservation.base().addr().get();
        assert_eq!((reservation.offset(base), reservation.offset(base - 1)), (Some(0), None));
        assert_eq!((reservation.offset(base + page - 1), reservation.offset(base + page)), (Some(page - 1), None));
    }
}
