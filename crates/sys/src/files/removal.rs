//! The removal of folders. It makes only system calls, so that it can be done after the fork of a
//! process that has several threads.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, fstat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::openat;

/// How many folders may lie in each other. Each takes a part of the stack, and a descriptor.
pub(crate) const DEPTH: u32 = 32;

/// Removes a folder of this user after it is emptied. Returns whether there is none any more.
pub(crate) fn remove_folder(within: BorrowedFd<'_>, name: &CStr, empty: impl Fn(BorrowedFd<'_>)) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = openat(within, name, flags, Mode::empty()) else { return true };
    if !fstat(&folder).is_ok_and(|about| about.st_uid == geteuid().as_raw()) {
        return true;
    }
    empty(folder.as_fd());
    unlinkat(within, name, AtFlags::REMOVEDIR).is_ok()
}

/// Removes these files of a folder.
pub(crate) fn remove_files(folder: BorrowedFd<'_>, files: &[CString]) {
    for file in files {
        let _ = unlinkat(folder, file.as_c_str(), AtFlags::empty());
    }
}

/// Removes what a folder contains, except the entry of this name, as far as that is possible.
/// Removes folders in it with all they contain if at most `depth` lie in each other. Follows no
/// link.
pub(crate) fn empty(folder: BorrowedFd<'_>, kept: Option<&CStr>, depth: u32) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut has_removed = true;
    // An entry may be overlooked while others are removed.
    while has_removed {
        has_removed = false;
        let Ok(list) = openat(folder, c".", FOLDER, Mode::empty()) else { return };
        let mut entries = RawDir::new(&list, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name();
            if name != c"." && name != c".." && Some(name) != kept {
                has_removed |= remove(folder, name, depth);
            }
        }
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Returns whether it is removed.
fn remove(within: BorrowedFd<'_>, name: &CStr, depth: u32) -> bool {
    let removed = unlinkat(within, name, AtFlags::empty());
    let Some(rest) = depth.checked_sub(1).filter(|_| removed == Err(Errno::ISDIR)) else { return removed.is_ok() };
    if let Ok(inner) = openat(within, name, FOLDER, Mode::empty()) {
        empty(inner.as_fd(), None, rest);
    }
    unlinkat(within, name, AtFlags::REMOVEDIR).is_ok()
}
