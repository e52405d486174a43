//! Reading the memory of another process (`process_vm_readv`).
//!
//! The kernel allows it to a process that may trace the other one: one of the same user, unless
//! the machine restricts that to descendants (`/proc/sys/kernel/yama/ptrace_scope`).

use std::io;

use rustix::io::Errno;

use crate::errno;

/// The memory of one process, at addresses that it has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// The process.
    pub pid: u32,
}

impl ProcessMemory {
    /// Copies what is at this address in that process, into all of `to`.
    ///
    /// The other process may write there meanwhile: then some bytes are old and some are new. If
    /// the call fails, `to` may have been written in part.
    ///
    /// # Errors
    /// `EPERM` or `ENOSYS` if it is not allowed, `ESRCH` if there is no such process, and `EFAULT`
    /// if it has no such memory.
    pub fn read(self, address: u64, to: &mut [u8]) -> io::Result<()> {
        let (Ok(pid), Ok(address)) = (libc::pid_t::try_from(self.pid), usize::try_from(address)) else {
            return Err(Errno::FAULT.into());
        };
        let mut done = 0;
        while done < to.len() {
            let rest = &mut to[done..];
            let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
            let at = address.checked_add(done).ok_or(Errno::FAULT)?;
            let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: rest.len() };
            // SAFETY: `local` is one range that is borrowed exclusively during the call, and any
            // bytes are valid in it. The kernel only reads the remote range, and checks it.
            let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
            match errno::check(read as libc::c_long) {
                Ok(0) => return Err(Errno::FAULT.into()),
                Ok(read) => done += read as usize,
                Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::{Guard, Reservation};

    fn address(of: &[u8]) -> u64 {
        of.as_ptr().expose_provenance() as u64
    }

    fn own() -> ProcessMemory {
        ProcessMemory { pid: std::process::id() }
    }

    #[test]
    fn bytes_of_a_process_are_copied() {
        let from: Vec<u8> = (0..100_000_u32).map(|byte| byte as u8).collect();
        let mut to = vec![0; from.len()];
        own().read(address(&from), &mut to).unwrap();
        assert_eq!(to, from);
        own().read(0, &mut []).unwrap();
    }

    #[test]
    fn memory_and_processes_that_do_not_exist_are_errors() {
        let mut to = [0; 16];
        for address in [0, 8, u64::MAX - 4, u64::MAX / 2] {
            let why = own().read(address, &mut to).unwrap_err();
            assert_eq!(why.raw_os_error(), Some(libc::EFAULT), "{address:x}");
        }
        let gone = ProcessMemory { pid: (1 << 22) - 1 };
        assert_eq!(gone.read(4096, &mut to).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert!(ProcessMemory { pid: u32::MAX }.read(4096, &mut to).is_err());
    }

    #[test]
    fn a_range_that_is_readable_in_part_is_an_error() {
        let page = crate::reservation::page_size();
        let pages = Reservation::new(2 * page).unwrap();
        pages.guard(page..2 * page, Guard::Protection).unwrap();
        let first = pages.base().as_ptr().expose_provenance() as u64;
        own().read(first, &mut vec![0; page]).unwrap();
        let why = own().read(first, &mut vec![0; page + 1]).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EFAULT));
    }
}
