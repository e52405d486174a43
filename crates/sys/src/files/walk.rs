//! Follows a path to a file or a folder, one component at a time.
//!
//! The kernel would follow any link of any user. Here, a link of another user leads only to what
//! belongs to that user: to the user's own folders and the files in them, never to a file of
//! root. In a sticky folder for all users, such a link leads nowhere. Each folder stays open, so
//! that nothing changes under way.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, fstatfs, mkdirat, readlinkat};
use rustix::io::Errno;

use super::openat;
use super::trust::{is_trusted, refusal, refuse_planted};

/// The limit for chains of symbolic links, as in the kernel.
const MOST_LINKS: usize = 40;
/// The `statfs` type of `/proc`.
const PROC: u32 = 0x9fa0;

/// The flags to look at something without opening it.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// How to create missing folders.
#[derive(Clone, Copy)]
pub(super) enum Make {
    /// With the usual permissions.
    Usual,
    /// With these permissions, whatever the umask, in a folder of this user or of root.
    Private(u32),
}

/// The end of a path: a name in a folder.
pub(super) struct Place {
    pub(super) folder: OwnedFd,
    /// The path of the folder, with links resolved.
    pub(super) path: PathBuf,
    /// `None` if the path is that of the folder itself, such as `..`.
    pub(super) name: Option<OsString>,
    /// The file or folder that has this name now. It is never a link.
    pub(super) found: Option<Found>,
}

/// The end of a path.
pub(super) struct Found {
    pub(super) about: Stat,
    /// Whether it is an open file of a process, named in `/proc`. It may be in no folder.
    pub(super) is_descriptor: bool,
    opened: OwnedFd,
}

impl Found {
    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.about.st_mode)
    }
}

impl Place {
    /// Opens the folder that the path leads to.
    pub(super) fn into_folder(self) -> io::Result<(OwnedFd, PathBuf)> {
        match (self.name, self.found) {
            (None, _) => Ok((self.folder, self.path)),
            (Some(name), Some(found)) if found.kind() == FileType::Directory => {
                Ok((open_folder(&self.folder, &name, found.opened), self.path.join(name)))
            }
            (_, Some(_)) => Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder")),
            (_, None) => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such folder")),
        }
    }
}

/// Follows a path. Only its last component may be missing, unless missing folders are to be made.
pub(super) fn walk(path: &Path, make: Option<Make>) -> io::Result<Place> {
    let mut walker = Walker::new()?;
    walker.push(path);
    while let Some(name) = walker.rest.pop() {
        if let Some(found) = walker.step(&name, make)? {
            walker.check_end(found.as_ref())?;
            return Ok(Place { folder: walker.folder, path: walker.path, name: Some(name), found });
        }
    }
    walker.check_end(None)?;
    Ok(Place { folder: walker.folder, path: walker.path, name: None, found: None })
}

struct Walker {
    folder: OwnedFd,
    path: PathBuf,
    /// The components that follow, in reverse order.
    rest: Vec<OsString>,
    links: usize,
    /// The other user whose link led here.
    led_by: Option<u32>,
}

impl Walker {
    fn new() -> io::Result<Walker> {
        let folder = open_folder(CWD, OsStr::new("."), openat(CWD, ".", LOOK | FOLDER, Mode::empty())?);
        Ok(Walker { folder, path: PathBuf::new(), rest: Vec::new(), links: 0, led_by: None })
    }

    fn push(&mut self, path: &Path) {
        self.rest.extend(path.components().rev().map(|component| component.as_os_str().to_owned()));
    }

    /// Takes one step. Returns `None` if it leads on, and what it has found at the end of the path.
    fn step(&mut self, name: &OsStr, make: Option<Make>) -> io::Result<Option<Option<Found>>> {
        if name == "/" || name == "." || name == ".." {
            let opened = openat(&self.folder, name, LOOK | FOLDER, Mode::empty())?;
            let opened = open_folder(&self.folder, name, opened);
            self.enter(name, opened);
            return Ok(None);
        }
        let opened = match openat(&self.folder, name, LOOK | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOENT) => match make {
                Some(make) => self.make(name, make)?,
                None if self.rest.is_empty() => return Ok(Some(None)),
                None => return Err(self.obstacle(name, io::ErrorKind::NotFound, "there is no such folder")),
            },
            opened => opened?,
        };
        let about = fstat(&opened)?;
        let mut found = Found { about, is_descriptor: false, opened };
        if found.kind() == FileType::Symlink {
            self.follow(&found.about)?;
            if !is_in_proc(&self.folder) {
                let target = PathBuf::from(OsString::from_vec(readlinkat(&found.opened, "", Vec::new())?.into_bytes()));
                self.push(&target);
                return Ok(None);
            }
            // The text of such a link need not be a path.
            found.opened = openat(&self.folder, name, LOOK, Mode::empty())?;
            found.about = fstat(&found.opened)?;
            found.is_descriptor = found.kind() != FileType::Directory;
        }
        if self.rest.is_empty() {
            return Ok(Some(Some(found)));
        }
        if found.kind() != FileType::Directory {
            return Err(self.obstacle(name, io::ErrorKind::NotADirectory, "it is not a folder"));
        }
        let opened = open_folder(&self.folder, name, found.opened);
        self.enter(name, opened);
        Ok(None)
    }

    fn enter(&mut self, name: &OsStr, folder: OwnedFd) {
        self.folder = folder;
        self.path.push(name);
    }

    fn obstacle(&self, name: &OsStr, kind: io::ErrorKind, why: &str) -> io::Error {
        io::Error::new(kind, format!("folder {}: {why}", self.path.join(name).display()))
    }

    /// Checks whether a link may be followed.
    fn follow(&mut self, link: &Stat) -> io::Result<()> {
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(io::Error::other("there are too many levels of symbolic links"));
        }
        refuse_planted(&fstat(&self.folder)?, link).map_err(|why| refusal(format!("the path has a link: {why}")))?;
        let other = (!is_trusted(link.st_uid)).then_some(link.st_uid);
        match (self.led_by, other) {
            (Some(first), Some(second)) if first != second => Err(misleading(second)),
            _ => {
                self.led_by = self.led_by.or(other);
                Ok(())
            }
        }
    }

    /// Checks what the links of another user have led to: it must belong to that user, or be a file
    /// in a folder of that user. Such a file is replaced.
    fn check_end(&self, found: Option<&Found>) -> io::Result<()> {
        let Some(other) = self.led_by else { return Ok(()) };
        let owner = match found.filter(|found| found.kind() != FileType::RegularFile || found.is_descriptor) {
            Some(found) => found.about.st_uid,
            None => fstat(&self.folder)?.st_uid,
        };
        if owner == other { Ok(()) } else { Err(misleading(other)) }
    }

    /// Creates a folder. Returns it, or what has its name by now.
    fn make(&self, name: &OsStr, make: Make) -> io::Result<OwnedFd> {
        self.check_end(None)?;
        let mode = match make {
            Make::Usual => 0o777,
            Make::Private(mode) => {
                let parent = fstat(&self.folder)?;
                if !is_trusted(parent.st_uid) {
                    let said = format!("{} belongs to user {}", self.path.display(), parent.st_uid);
                    return Err(refusal(said));
                }
                mode
            }
        };
        let made = match mkdirat(&self.folder, name, Mode::from_raw_mode(mode)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(why) => return Err(why.into()),
        };
        let opened = openat(&self.folder, name, LOOK | OFlags::NOFOLLOW, Mode::empty())?;
        if made && matches!(make, Make::Private(_)) {
            // The umask may have removed permissions. A folder that is only looked at has no mode
            // to change.
            fchmod(openat(&opened, ".", OFlags::RDONLY | FOLDER, Mode::empty())?, Mode::from_raw_mode(mode))?;
        }
        Ok(opened)
    }
}

fn misleading(user: u32) -> io::Error {
    refusal(format!("the path has a link of user {user} to what does not belong to that user"))
}

fn is_in_proc(folder: &OwnedFd) -> bool {
    fstatfs(folder).is_ok_and(|about| about.f_type as u32 == PROC)
}

/// Opens a folder to read it if that is permitted, which also mounts an automatic mount.
fn open_folder(within: impl AsFd, name: &OsStr, looked_at: OwnedFd) -> OwnedFd {
    openat(within, name, OFlags::RDONLY | OFlags::NOFOLLOW | FOLDER, Mode::empty()).unwrap_or(looked_at)
}
