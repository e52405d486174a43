//! Whether files can be executed from their file system.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Whether the file can be mapped as executable. It cannot if its file system is mounted `noexec`,
/// if a security module forbids it, or if it is empty.
pub fn can_be_mapped(file: impl AsFd) -> bool {
    let one = NonZeroUsize::MIN.get();
    // SAFETY: the kernel chooses an unused range, and the mapping is never accessed.
    let mapped = unsafe { mmap(null_mut(), one, ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE, file, 0) };
    let Ok(start) = mapped else { return false };
    // SAFETY: this range was mapped just now, and no other code knows it.
    let _ = unsafe { munmap(start, one) };
    true
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_program_can_be_mapped_and_a_pipe_cannot() {
        assert!(can_be_mapped(File::open(std::env::current_exe().unwrap()).unwrap()));
        assert!(!can_be_mapped(std::io::pipe().unwrap().0));
        assert!(!can_be_mapped(File::open("/proc/self/status").unwrap()));
    }
}
