//! Whether files can be executed where they are.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Whether the file can be mapped to be executed. What is on a file system that is mounted `noexec`, or kept from it by a security module,
/// cannot; nor can an empty file.
pub fn can_be_mapped(file: impl AsFd) -> bool {
    let one = NonZeroUsize::MIN.get();
    // SAFETY: without a fixed address the kernel takes one where nothing is, and nobody looks at what is there.
    let mapped = unsafe { mmap(null_mut(), one, ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE, file, 0) };
    let Ok(start) = mapped else { return false };
    // SAFETY: this range was mapped just now, and nobody else knows it.
    let _ = unsafe { munmap(start, one) };
    true
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_program_can_be_mapped_and_what_is_no_file_cannot() {
        assert!(can_be_mapped(File::open(std::env::current_exe().unwrap()).unwrap()));
        assert!(!can_be_mapped(std::io::pipe().unwrap().0));
        assert!(!can_be_mapped(File::open("/proc/self/status").unwrap()));
    }
}
