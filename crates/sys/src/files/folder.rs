//! An open folder. It remains the same if its path changes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, fsync, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::draft::Draft;
use super::openat;
use super::trust::{
    PERMISSIONS, WRITABLE_BY_GROUP, is_shared_by_umask, refuse_hard_link, refuse_planted, require_private,
};
use super::walk::{Make, walk};

/// An open folder.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    opened: Arc<OwnedFd>,
}

impl Folder {
    /// Opens a folder that the user has named.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn open(path: &Path) -> io::Result<Folder> {
        Folder::walk(path, None)
    }

    /// Opens a folder that the user has named. Creates it and its missing ancestors.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> io::Result<Folder> {
        Folder::walk(path, Some(Make::Usual))
    }

    /// Opens the folder of a cache.
    ///
    /// # Errors
    /// If there is no such folder, if it belongs to another user, or if others can write to it.
    pub fn open_private(path: &Path) -> io::Result<Folder> {
        Folder::walk(path, None)?.require_private()
    }

    /// Opens the folder of a cache. Creates it and its missing ancestors with these permissions,
    /// only in a folder of this user or of root. If its group can write to it, as is usual with a
    /// umask of 002, the group no longer can.
    ///
    /// # Errors
    /// As for [`Folder::open_private`], and if it cannot be created.
    pub fn create_private(path: &Path, mode: u32) -> io::Result<Folder> {
        let folder = Folder::walk(path, Some(Make::Private(mode)))?;
        let about = fstat(&folder)?;
        if is_shared_by_umask(&about) {
            folder.set_mode(about.st_mode & PERMISSIONS & !WRITABLE_BY_GROUP)?;
        }
        folder.require_private()
    }

    fn walk(path: &Path, make: Option<Make>) -> io::Result<Folder> {
        let (opened, _) = walk(path, make)?.into_folder()?;
        Ok(Folder::from_opened(opened, path.to_owned()))
    }

    pub(super) fn from_opened(opened: OwnedFd, path: PathBuf) -> Folder {
        let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
        Folder { path, opened: Arc::new(opened) }
    }

    fn require_private(self) -> io::Result<Folder> {
        require_private(&fstat(&self)?)?;
        Ok(self)
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the permissions of the folder.
    ///
    /// # Errors
    /// If it does not belong to this user.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(fchmod(self, Mode::from_raw_mode(mode))?)
    }

    /// Reads a file of this folder.
    ///
    /// # Errors
    /// If there is no regular file of this name, but a link or a pipe, for example.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let (file, _) = self.open_regular(name, OFlags::RDONLY)?;
        read_all(file)
    }

    /// Reads a file of a cache.
    ///
    /// # Errors
    /// As for [`Folder::read`], and if it belongs to another user or others can write to it.
    pub fn read_private(&self, name: &str) -> io::Result<Vec<u8>> {
        let (file, about) = self.open_regular(name, OFlags::RDONLY)?;
        require_private(&about)?;
        read_all(file)
    }

    /// Creates a file of this folder, or replaces it with all its content at once. A crash of the
    /// machine may undo that, or leave an incomplete file. For a mode of `None`, the umask decides
    /// on the permissions.
    ///
    /// # Errors
    /// If the file cannot be written or replaced. An old file is unchanged then.
    pub fn replace(&self, name: &str, content: &[u8], mode: Option<u32>) -> io::Result<()> {
        let draft = Draft::create(self, Mode::from_raw_mode(mode.unwrap_or(0o666)))?;
        draft.file().write_all(content)?;
        if let Some(mode) = mode {
            fchmod(draft.file(), Mode::from_raw_mode(mode))?;
        }
        draft.give_name(name.as_ref())
    }

    /// Opens a file of this folder to append to it. Creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or if there is anything else of this name.
    pub fn append(&self, name: &str) -> io::Result<File> {
        let create = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        loop {
            match openat(self, name, create, Mode::from_raw_mode(0o666)) {
                Err(Errno::EXIST) => {}
                created => return Ok(created?.into()),
            }
            match self.open_regular(name, OFlags::WRONLY | OFlags::APPEND) {
                // It has just been removed.
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(why),
                Ok((file, about)) => {
                    let folder = fstat(self)?;
                    refuse_planted(&folder, &about)?;
                    refuse_hard_link(&folder, &about)?;
                    return Ok(file);
                }
            }
        }
    }

    /// Removes a file of this folder if it exists.
    ///
    /// # Errors
    /// If it is a folder or cannot be removed.
    pub fn remove(&self, name: impl Arg) -> io::Result<()> {
        match unlinkat(self, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Flushes the folder's entries to the disk.
    ///
    /// # Errors
    /// If the system reports one.
    pub fn sync(&self) -> io::Result<()> {
        match fsync(self) {
            // Some file systems do not support this for folders, or it may not be read.
            Ok(()) | Err(Errno::INVAL | Errno::BADF) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    pub(super) fn open_regular(&self, name: &str, access: OFlags) -> io::Result<(File, rustix::fs::Stat)> {
        // Opening a pipe must not block.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(self, name, flags, Mode::empty())?;
        let about = fstat(&file)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => Ok((file.into(), about)),
            FileType::Directory => Err(super::folder_error()),
            _ => Err(io::Error::other("it is not a regular file")),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }
}

fn read_all(mut file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(content)
}
