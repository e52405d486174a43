//! Restartable sequences: memory in which the kernel stores, among others, the current CPU of a
//! thread. [`current`](crate::cpus::current) reads it there if it is registered.

use std::ffi::CStr;
use std::io;
use std::ptr::NonNull;

/// The source of the CPU number of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rseq {
    /// Memory: the C library has registered it with the kernel.
    Registered,
    /// The kernel supports it, but the C library has not registered it.
    Unregistered,
    /// The kernel lacks it, or a system call filter forbids it.
    Absent,
}

/// The offset from the thread pointer of the memory that the C library has registered for each
/// thread. `None` if it has registered none.
pub(crate) fn offset() -> Option<isize> {
    // SAFETY: the call has no preconditions; the name is a C string.
    let symbol = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let size = NonNull::new(symbol(c"__rseq_size"))?.cast::<libc::c_uint>();
    let offset = NonNull::new(symbol(c"__rseq_offset"))?.cast::<isize>();
    // SAFETY: a C library that has the variables defines them as constants of these types.
    unsafe { (size.read() > 0).then(|| offset.read()) }
}

/// The state of restartable sequences for the threads of this process.
pub fn rseq() -> Rseq {
    if offset().is_some() {
        return Rseq::Registered;
    }
    // SAFETY: the kernel refuses zero bytes at address zero, and accesses no memory.
    let refused = unsafe { libc::syscall(libc::SYS_rseq, std::ptr::null_mut::<u8>(), 0, 0, 0) };
    if refused == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        Rseq::Unregistered
    } else {
        Rseq::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_state_does_not_change() {
        let first = rseq();
        assert_eq!(rseq(), first);
        assert_eq!(std::thread::spawn(rseq).join().unwrap(), first);
    }

    #[test]
    fn a_c_library_that_is_configured_not_to_register_does_not() {
        let start = |mut command: Command| testing::expect_pass(command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0"));
        testing::isolated_by(start, || assert_ne!(rseq(), Rseq::Registered));
    }
}
