//! Files: the only module of rowlock that creates, writes and renames them.
//!
//! Another user may have prepared a folder in which this process writes, perhaps as root: with
//! links, named pipes or folders at the names that it will use. Whatever is there, no file of
//! another user changes, and none is believed. There are two cases.
//!
//! 1. *The user has named the file*, as in `--out FILE`: [`write()`], [`Target`], [`append`] and
//!    [`Folder::create`]. The path is followed as the user means it, except that a link of another
//!    user leads only to what belongs to that same user (`walk`), and in a sticky folder for all
//!    users, such as `/tmp`, nothing of another user is used. The new file is written without a
//!    name and replaces the old one when it is complete. A pipe or a device, such as
//!    `/dev/stdout`, is written to directly.
//! 2. *The file is a cache*: [`Folder::open_private`] and [`Folder::create_private`]. It lies in a
//!    folder that belongs to this user and that no other user can write to, or there is none. A
//!    cached file is read under the same conditions.
//!
//! Temporary files have no name ([`Draft`]), or lie in a [`TemporaryFolder`] if another program
//! needs their path. Processes that run at the same time share files in a [`SharedFolder`]. Files
//! of the kernel, such as those of control groups, are written by
//! [`write_control`] and [`Control`].

#![allow(clippy::disallowed_methods, reason = "this module writes files")]

mod draft;
mod folder;
mod lock;
mod removal;
mod replacement;
mod shared_folder;
mod target;
mod temporary;
#[cfg(test)]
mod tests;
mod trust;
mod walk;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;
use rustix::process::geteuid;

pub(crate) use draft::some_name;
pub use draft::{Draft, PREFIX, remove_leftovers};
pub use folder::Folder;
pub use lock::is_locked;
pub(crate) use lock::{create_locked, has_name, lock_leftover, open_leftover};
pub(crate) use removal::{DEPTH, empty, remove_files, remove_folder};
pub use replacement::Replacement;
pub use shared_folder::SharedFolder;
pub(crate) use shared_folder::remove_unused;
pub use target::{Target, append, write};
pub use temporary::TemporaryFolder;
pub use trust::{is_safe_from_others, temporary_folder};

/// Read and write permission for this user alone.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The error of a folder in place of a file.
pub fn folder_error() -> io::Error {
    io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")
}

/// Opens a file in a folder, again if a signal interrupts that.
fn openat(folder: impl AsFd, name: impl Arg + Copy, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    retry_on_intr(|| rustix::fs::openat(&folder, name, flags, mode))
}

/// Creates a file that only this user can open, to read and write it. The path is used as it is, so
/// other users must not be able to replace its folder.
///
/// # Errors
/// If there is anything at this path, even a link without a target.
pub fn create_new(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, PRIVATE)?.into())
}

/// Creates a file without a name in the folder for temporary files. It vanishes when it is closed.
///
/// # Errors
/// If it cannot be created. The error names the folder.
pub fn temporary_file() -> io::Result<File> {
    let folder = std::env::temp_dir();
    let create = || Draft::create(&Folder::open(&folder)?, PRIVATE)?.into_unnamed();
    create().map_err(|why| {
        let place = folder.display();
        let said = format!("cannot create a temporary file in {place}: {why}; TMPDIR names another folder");
        io::Error::new(why.kind(), said)
    })
}

/// Opens an existing file to read and write it. The path is used as it is, links included: it comes
/// from the process that has created the file.
///
/// # Errors
/// If there is no regular file at this path.
pub fn open_existing(path: &Path) -> io::Result<File> {
    open_regular(path, OFlags::empty())
}

/// Opens a file that processes of this user share, or creates it if it does not exist.
///
/// # Errors
/// If there is anything else at this path, or a file of another user.
pub fn open_shared(path: &Path) -> io::Result<File> {
    let file = open_regular(path, OFlags::CREATE | OFlags::NOFOLLOW)?;
    if fstat(&file)?.st_uid != geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    Ok(file)
}

fn open_regular(path: &Path, more: OFlags) -> io::Result<File> {
    // Opening a pipe must not block.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags | more, PRIVATE)?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

/// Writes a setting to a file of the kernel, as in `/proc` or in a control group, by one system
/// call. Neither creates nor truncates the file.
///
/// # Errors
/// If the file does not exist or the kernel rejects the setting.
pub fn write_control(path: &Path, setting: &str) -> io::Result<()> {
    Ok(write_control_at(CWD, path, setting.as_bytes())?)
}

/// An open file of the kernel, to write settings and read the present one again and again.
#[derive(Debug)]
pub struct Control(OwnedFd);

impl Control {
    /// Opens a file in an open folder. It must not be a link.
    ///
    /// # Errors
    /// If there is no such file, or it may not be written.
    pub(crate) fn open_in(folder: impl AsFd, name: &str) -> io::Result<Control> {
        Ok(Control(openat(
            folder,
            name,
            OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )?))
    }

    /// Writes a setting, by one system call.
    ///
    /// # Errors
    /// If the kernel rejects it, or what the file belongs to is gone.
    pub fn write(&self, setting: &str) -> io::Result<()> {
        let written = rustix::io::write(&self.0, setting.as_bytes())?;
        if written == setting.len() { Ok(()) } else { Err(Errno::IO.into()) }
    }

    /// The setting, without the blanks around it.
    ///
    /// # Errors
    /// If it cannot be read, or what the file belongs to is gone.
    pub fn read(&self) -> io::Result<String> {
        let mut text = [0; 256];
        let length = rustix::io::pread(&self.0, &mut text, 0)?;
        Ok(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).trim().to_owned())
    }
}

/// As [`write_control`], by a path within an open folder. If the path is a C string, it makes only
/// system calls.
pub(crate) fn write_control_at(folder: impl AsFd, path: impl Arg + Copy, setting: &[u8]) -> Result<(), Errno> {
    let file =
        openat(folder, path, OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    match rustix::io::write(&file, setting)? {
        written if written == setting.len() => Ok(()),
        _ => Err(Errno::IO),
    }
}
