//! A folder that processes of one user share as long as any of them runs.
//!
//! Each user of the folder holds a shared lock (`flock`) on a file in it. A process that takes this
//! lock exclusively has found that no process uses the folder, and removes it. That is tried by
//! each user that leaves, and by a [`Successor`] for one that is killed.
//!
//! # Why it is neither removed while it is used, nor left
//!
//! - A user and a successor can race between opening the file and locking it. So the user checks
//!   afterwards that the file still has its name, in the folder that still has its own. If not, it
//!   begins again. Only a process that holds the exclusive lock takes these names away.
//! - A user that leaves releases its lock before it tries. So of several that leave at once, the
//!   last one finds no lock, or that of another which removes the folder.
//! - The exclusive lock is held for a moment only, so the wait for a shared one is limited.
//!
//! If all successors are killed as well, the folder is left. The first user after that empties it.

use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::draft::Draft;
use super::folder::Folder;
use super::lock::{has_name, lock_leftover};
use super::removal::empty;
use super::trust::refusal;
use super::{PRIVATE, openat};
use crate::containment::Successor;
use crate::identity::pid_namespace;
use crate::shared_memory::Mapping;

/// The file that all users have locked.
const USERS: &CStr = c"users";
/// How long to wait for a lock that is only ever held for a moment, and between two attempts.
const PATIENCE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(1);
const ACCESSIBLE_TO_OTHERS: u32 = 0o077;

/// A folder that only processes of this user can enter, and that is removed with its files when
/// the last of them ends, however that happens, or drops this value.
///
/// Any process of this user may write to all that it contains.
#[derive(Debug)]
pub struct SharedFolder {
    opened: Folder,
    /// `None` if the folder is only looked at, and may be removed at any time.
    entry: Option<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Locked as long as the folder is used. It is closed before the removal.
    users: OwnedFd,
    _removal: Removal,
}

impl SharedFolder {
    /// The name of the folder that the processes of this user in this PID namespace share.
    pub fn common_name() -> String {
        format!("rowlock-{}-{}", geteuid().as_raw(), pid_namespace())
    }

    /// Enters the folder with this name in another one. Creates it if it does not exist. The first
    /// user finds it empty.
    ///
    /// Starts a child process. Blocks for at most some seconds.
    ///
    /// # Errors
    /// If it cannot be created, if it belongs to another user or is accessible to others, or if a
    /// process keeps it locked. As those of all other functions, the error names the path.
    pub fn enter(within: &Path, name: &str) -> io::Result<SharedFolder> {
        SharedFolder::try_to_enter(within, name, true, PATIENCE)
    }

    /// Enters the folder with this name in another one if it exists, as [`SharedFolder::enter`].
    ///
    /// # Errors
    /// As [`SharedFolder::enter`].
    pub fn find(within: &Path, name: &str) -> io::Result<Option<SharedFolder>> {
        match SharedFolder::try_to_enter(within, name, false, PATIENCE) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Looks into the folder with this name in another one if it exists, without entering it: its
    /// files can be read and mapped, but it may be removed with them at any time. Starts no process
    /// and never blocks.
    ///
    /// # Errors
    /// If it belongs to another user or is accessible to others.
    pub fn look(within: &Path, name: &str) -> io::Result<Option<SharedFolder>> {
        let path = within.join(name);
        let open = || open_checked(Folder::open(within)?.as_fd(), &CString::new(name)?);
        match open() {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(about(&path)(why)),
            Ok(opened) => Ok(Some(SharedFolder { opened: Folder::from_opened(opened, path), entry: None })),
        }
    }

    fn try_to_enter(within: &Path, name: &str, create: bool, patience: Duration) -> io::Result<SharedFolder> {
        let enter = || {
            let (folder, name) = (Folder::open(within)?, CString::new(name)?);
            if !create {
                // It takes no child process to find nothing.
                open_own(folder.as_fd(), &name)?;
            }
            let deadline = Instant::now() + patience;
            let removal =
                Removal { successor: Some(Successor::removing_shared(&folder, &name)?), within: folder, name };
            loop {
                if let Some((opened, users)) = removal.enter(create)? {
                    let path = within.join(&*removal.name.to_string_lossy());
                    let entry = Some(Entry { users, _removal: removal });
                    return Ok(SharedFolder { opened: Folder::from_opened(opened, path), entry });
                }
                if Instant::now() >= deadline {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process keeps it locked"));
                }
                sleep(INTERVAL);
            }
        };
        enter().map_err(about(&within.join(name)))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.opened.path()
    }

    /// The folder.
    pub fn as_folder(&self) -> &Folder {
        &self.opened
    }

    /// Creates a file with this content. It appears under its name when it is complete.
    ///
    /// # Errors
    /// If it exists ([`io::ErrorKind::AlreadyExists`]) or cannot be written.
    pub fn create_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let create = || {
            let draft = Draft::create(&self.opened, PRIVATE)?;
            draft.file().write_all(content)?;
            draft.give_new_name(name.as_ref())
        };
        create().map_err(about(&self.path_of(name)))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If there is no regular file of this name, or if it is longer than `limit` bytes.
    pub fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let read = || {
            let (file, _) = self.opened.open_regular(name, OFlags::RDONLY)?;
            let mut content = Vec::new();
            match file.take(limit.saturating_add(1)).read_to_end(&mut content)? as u64 > limit {
                true => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is longer than {limit} bytes"))),
                false => Ok(content),
            }
        };
        read().map_err(about(&self.path_of(name)))
    }

    /// Removes a file if it exists.
    ///
    /// # Errors
    /// If it is a folder or cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.opened.remove(name).map_err(about(&self.path_of(name)))
    }

    /// Maps a file of exactly this length. Creates it, full of zeros, if it does not exist and the
    /// folder was entered.
    ///
    /// The memory outlives the file. A process of this user can make the file shorter, after which
    /// an access ends this process by SIGBUS: such a process could kill this one as well.
    ///
    /// # Errors
    /// If it has another length ([`io::ErrorKind::InvalidData`]), or cannot be created or mapped.
    pub fn map(&self, name: &str, length: NonZeroUsize) -> io::Result<Arc<Mapping>> {
        let path = self.path_of(name);
        let (file, found) = loop {
            match self.opened.open_regular(name, OFlags::RDWR) {
                Err(why) if why.kind() == io::ErrorKind::NotFound && self.entry.is_some() => {}
                opened => break opened.map_err(about(&path))?,
            }
            // The zeros are written: memory for a hole might be missing when it is accessed.
            match self.create_file(name, &vec![0; length.get()]) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                created => created?,
            }
        };
        if u64::try_from(found.st_size) != Ok(length.get() as u64) {
            let why = format!("it has {} bytes instead of {length}", found.st_size);
            return Err(about(&path)(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        Mapping::new(file, length).map_err(about(&path))
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // A child has the file open, too, until it executes its program.
        let _ = flock(&self.users, FlockOperation::Unlock);
    }
}

/// Removes a folder that no process uses, when it is dropped or this process ends.
#[derive(Debug)]
struct Removal {
    within: Folder,
    name: CString,
    /// `None` after its turn.
    successor: Option<Successor>,
}

impl Removal {
    /// Opens and locks the folder and the file of its users. Returns `None` if a process that
    /// removes it is faster, or holds the lock.
    fn enter(&self, create: bool) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
        if create {
            match mkdirat(&self.within, &*self.name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(why) => return Err(why.into()),
            }
        }
        let folder = match open_checked(self.within.as_fd(), &self.name) {
            Err(why) if why.kind() == io::ErrorKind::NotFound && create => return Ok(None),
            opened => opened?,
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let users = match openat(&folder, USERS, flags | OFlags::CLOEXEC, PRIVATE) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        if FileType::from_raw_mode(fstat(&users)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("`users` in it is not a regular file"));
        }
        Ok(self.lock(&folder, &users)?.then_some((folder, users)))
    }

    /// Locks the file of the users. Returns whether it did, and both have their names still.
    fn lock(&self, folder: &OwnedFd, users: &OwnedFd) -> io::Result<bool> {
        let is_current = || has_name(users, folder, USERS) && has_name(folder, &self.within, &*self.name);
        if lock(users, FlockOperation::NonBlockingLockExclusive)? && is_current() {
            // Killed processes have left its files.
            empty(folder.as_fd(), Some(USERS), 0);
        }
        Ok(lock(users, FlockOperation::NonBlockingLockShared)? && is_current())
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        remove_unused(self.within.as_fd(), &self.name);
        self.successor.take().into_iter().for_each(Successor::dismiss);
    }
}

/// Puts a path in front of the reason of an error.
fn about(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |why| io::Error::new(why.kind(), format!("{}: {why}", path.display()))
}

/// Takes a lock, or replaces one. Returns whether no other process prevents that. If it is
/// prevented, none is held.
fn lock(file: &OwnedFd, operation: FlockOperation) -> io::Result<bool> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// Opens a folder of this user alone.
fn open_checked(within: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    match open_own(within, name) {
        Err(Errno::NOTDIR) => Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder")),
        Err(Errno::PERM) => Err(refusal("it does not belong to this user alone".to_owned())),
        opened => Ok(opened?),
    }
}

/// Opens a folder. It makes only system calls. Fails with EPERM if it does not belong to this user
/// or is accessible to others.
fn open_own(within: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(within, name, flags, Mode::empty())?;
    let about = fstat(&folder)?;
    let is_own = about.st_uid == geteuid().as_raw() && about.st_mode & ACCESSIBLE_TO_OTHERS == 0;
    if is_own { Ok(folder) } else { Err(Errno::PERM) }
}

/// Removes a folder of this user with its files if no process uses it. Returns whether this user
/// has none of this name any more. It makes only system calls.
pub(crate) fn remove_unused(within: BorrowedFd<'_>, name: &CStr) -> bool {
    let Ok(folder) = open_own(within, name) else { return true };
    if cfg!(rowlock_canary = "a-table-stays") {
        return true;
    }
    match lock_leftover(&folder, USERS) {
        Ok(Some(_locked)) => {
            empty(folder.as_fd(), Some(USERS), 0);
            let _ = unlinkat(&folder, USERS, AtFlags::empty());
        }
        // Its creator, or another process that removes it, was killed between two steps.
        Err(Errno::NOENT) => {}
        Ok(None) | Err(_) => return false,
    }
    // It fails if the next user has created its file.
    unlinkat(within, name, AtFlags::REMOVEDIR).is_ok()
}

#[cfg(test)]
mod tests;
