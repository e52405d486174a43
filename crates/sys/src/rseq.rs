//! Restartable sequences: memory in which the kernel stores, among others, the current CPU of a
//! thread. [`current`](crate::cpus::current) reads it from there when the C library has registered
//! it.

use std::io;

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

/// The state of restartable sequences for the threads of this process.
pub fn rseq() -> Rseq {
    // SAFETY: the call has no preconditions; the name is a C string. The variable holds the size
    // that the C library has registered for each thread.
    let size = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()) }.cast::<libc::c_uint>();
    // SAFETY: a C library that has the variable defines it as a constant `unsigned int`.
    if !size.is_null() && unsafe { size.read() } > 0 {
        return Rseq::Registered;
    }
    // SAFETY: zero bytes at address zero are not a valid area, so the kernel refuses and accesses
    // no memory.
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
