//! Files that a process holds by a lock (`flock`) as long as it uses them.
//!
//! The lock ends with its process, so a file that is not locked is a leftover of a killed one.
//!
//! A creator and a remover can race between creation and locking. Both take the lock and then check
//! again: the remover, whether the name still belongs to the file; the creator, whether its file
//! still has a name. If not, it creates another one.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fstat, statat};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use super::openat;

/// Creates and locks a file. Returns `None` if another process has removed it before it was locked.
/// It makes only system calls.
pub(crate) fn create_locked(folder: impl AsFd, name: impl Arg + Copy, mode: Mode) -> Result<Option<File>, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, mode)?);
    retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
    Ok((fstat(&file)?.st_nlink > 0).then_some(file))
}

/// Locks a leftover, to remove it. Returns `None` if it is no regular file, or no longer there.
///
/// # Errors
/// If a process holds it.
pub(crate) fn lock_leftover(folder: impl AsFd, name: &CStr) -> Result<Option<File>, Errno> {
    let Some(file) = open_leftover(&folder, name)? else { return Ok(None) };
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(has_name(&file, folder, name).then_some(file))
}

/// Opens a leftover without a lock, whose creator is known to have ended. Returns `None` if it is
/// no regular file.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn open_leftover(folder: impl AsFd, name: &CStr) -> Result<Option<File>, Errno> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    let is_regular = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile;
    Ok(is_regular.then_some(file))
}

/// Whether a process has locked an open file: the one that has created it, or another one that has
/// inherited its descriptor.
pub fn is_locked(file: impl AsFd) -> bool {
    let locked = retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockShared));
    if locked.is_ok() {
        let _ = flock(&file, FlockOperation::Unlock);
    }
    locked == Err(Errno::WOULDBLOCK)
}

/// Whether an open file or folder has this name in a folder.
pub(crate) fn has_name(file: impl AsFd, folder: impl AsFd, name: impl Arg) -> bool {
    let named = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    named.is_ok_and(|named| fstat(file).is_ok_and(|about| (about.st_dev, about.st_ino) == (named.st_dev, named.st_ino)))
}
