//! Address space of one's own whose pages get memory when they are first touched, and among which there may be guards: pages that nobody may touch.

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rustix::mm::{Advice, MprotectFlags, madvise, mprotect};

/// What makes a page a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A mark in the page table (`MADV_GUARD_INSTALL`, since Linux 6.13). There may be as many as one likes; not in memory that is locked.
    Mark,
    /// Its protection. The kernel keeps each run of pages of one protection as a mapping, and a process has some 65 000 of those (`vm.max_map_count`), so there
    /// is room for half as many guards.
    Protection,
}

/// `MADV_GUARD_INSTALL`, which the C library's headers may be too old for.
const INSTALL: libc::c_int = 102;

/// The size of a page, in bytes.
pub fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            // The C library is asked, for Valgrind shows rustix no auxiliary vector that it could read.
            // SAFETY: a question.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

/// So many bytes of address space, whole pages, to be read and written. They are zero at first, take no memory until they are touched, and nothing is set aside for them.
///
/// It hands out no references. Who reads and writes through its [base](Reservation::base) answers for not doing so where there is a guard, nor expecting to
/// find what was discarded.
#[derive(Debug)]
pub struct Reservation {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns address space, of which it reads and writes nothing itself.
unsafe impl Send for Reservation {}
// SAFETY: as above; and the kernel lets threads change their address space at the same time.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// So many bytes, rounded up to whole pages; at least one.
    ///
    /// # Errors
    /// The kernel's, where there is no room, or as many mappings as there may be.
    pub fn new(length: usize) -> io::Result<Reservation> {
        let most = isize::MAX as usize - page_size();
        let length = length.max(1);
        if length > most {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let length = length.next_multiple_of(page_size());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // By way of the C library, since the compiler's sanitizers look at what goes through there.
        // SAFETY: without a fixed address the kernel takes one where nothing is.
        let base = unsafe { libc::mmap(null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page would be one for many stacks of which each uses a page. Kernels that have none refuse.
        // SAFETY: nobody knows of the memory, which keeps what is in it.
        let _ = unsafe { madvise(base, length, Advice::LinuxNoHugepage) };
        Ok(Reservation { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, length })
    }

    /// Where it begins.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Where in it an address is.
    pub fn offset(&self, address: usize) -> Option<usize> {
        address.checked_sub(self.base.addr().get()).filter(|&offset| offset < self.length)
    }

    /// A part, if it is one and whole pages.
    fn part(&self, part: &Range<usize>) -> io::Result<(*mut libc::c_void, usize)> {
        let whole = part.start.is_multiple_of(page_size()) && part.end.is_multiple_of(page_size());
        if !whole || part.start > part.end || part.end > self.length {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: within the reservation.
        Ok((unsafe { self.base.add(part.start) }.as_ptr().cast(), part.len()))
    }

    /// Makes this part, whole pages, a guard: who touches it gets a SIGSEGV. What was there is lost.
    ///
    /// # Errors
    /// The kernel's. With [`Guard::Mark`] that is `EINVAL` where it knows no such thing, and where the memory is locked; with [`Guard::Protection`] it is `ENOMEM`
    /// when there are as many mappings as there may be.
    pub fn guard(&self, part: Range<usize>, how: Guard) -> io::Result<()> {
        let (start, length) = self.part(&part)?;
        match how {
            Guard::Mark => {
                // SAFETY: the memory is ours, and whoever touches it knows that it may become a guard.
                if unsafe { libc::madvise(start, length, INSTALL) } != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            // SAFETY: as above.
            Guard::Protection => unsafe { mprotect(start, length, MprotectFlags::empty())? },
        }
        Ok(())
    }

    /// Gives this part's memory, whole pages, back to the kernel. It is zero when it is touched again. Guards stay guards.
    ///
    /// # Errors
    /// The kernel's, where the memory is locked for instance: it keeps what it had then.
    pub fn discard(&self, part: Range<usize>) -> io::Result<()> {
        let (start, length) = self.part(&part)?;
        // SAFETY: the memory is ours, and whoever reads it knows that it may be lost.
        unsafe { madvise(start, length, Advice::LinuxDontNeed)? };
        Ok(())
    }

    /// Gives this part, whole pages, its memory before it is touched, for less than that costs page by page.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` before Linux 5.14, and where there is no memory.
    pub fn populate(&self, part: Range<usize>) -> io::Result<()> {
        let (start, length) = self.part(&part)?;
        // SAFETY: what is there stays.
        if unsafe { libc::madvise(start, length, libc::MADV_POPULATE_WRITE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// How many bytes at the end of this part, whole pages, lie from its first page on that is in memory. A page that was swapped out counts as one that was never
    /// touched. One system call, and a byte of memory for each page.
    ///
    /// # Errors
    /// The kernel's.
    pub fn used_at_end(&self, part: Range<usize>) -> io::Result<usize> {
        let (start, length) = self.part(&part)?;
        let mut pages = vec![0_u8; length / page_size()];
        // SAFETY: there is a byte for each page.
        if unsafe { libc::mincore(start, length, pages.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let untouched = pages.iter().take_while(|&&page| page & 1 == 0).count();
        Ok(length - untouched * page_size())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and is unmapped only here. It fails only for ranges that are none.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a byte can be read, as the kernel sees it: who asks it to write a byte that it must not read gets an error and no signal.
    fn is_readable(at: *const u8) -> bool {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors, which are closed again; the kernel checks the address itself.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let written = libc::write(ends[1], at.cast(), 1);
            libc::close(ends[0]);
            libc::close(ends[1]);
            written == 1
        }
    }

    /// Both ways, but for marks on kernels that have none.
    fn ways(reservation: &Reservation) -> Vec<Guard> {
        let page = page_size();
        let marks = reservation.guard(page * 3..page * 4, Guard::Mark).is_ok();
        if marks { vec![Guard::Mark, Guard::Protection] } else { vec![Guard::Protection] }
    }

    #[test]
    fn a_guard_cannot_be_read_and_stays_one_when_memory_goes_back() {
        let page = page_size();
        for how in ways(&Reservation::new(page * 4).unwrap()) {
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
            assert_eq!(unsafe { at(page * 2).read() }, 0, "it was given back");
        }
    }

    #[test]
    fn what_is_touched_at_the_end_is_told_from_what_is_not() {
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
    fn parts_that_are_none_are_refused() {
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
