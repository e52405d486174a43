//! Files that can be executed: the search for a command, and file systems that do not allow it.

use std::env;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use rustix::fs::{Access, access};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The files that `execvp` tries for a command with this `PATH`, in its order. None for an empty
/// command.
pub fn candidates(command: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    if command.is_empty() {
        return Vec::new();
    }
    if command.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(command)];
    }
    // An empty entry is the current folder.
    let folders = env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin")));
    folders.map(|folder| Path::new(".").join(folder).join(command)).collect()
}

/// Whether this process may execute the file.
pub fn may_be_executed(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

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
