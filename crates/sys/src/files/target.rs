//! Targets that a user can name to be written: a file, a pipe or a device.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use rustix::stdio::{stderr, stdout};

use super::folder::Folder;
use super::openat;
use super::replacement::Replacement;
use super::trust::{is_trusted, refusal, refuse_hard_link, refuse_planted};
use super::walk::{Found, Place, walk};

/// The output that a user has named.
#[derive(Debug)]
pub enum Target {
    /// A file, which appears when it is complete.
    File(Box<Replacement>),
    /// A pipe, a device or an open file of this process, written to directly.
    Stream(File),
}

impl Target {
    /// Opens the output with this path. Opening a named pipe blocks until a reader opens it.
    ///
    /// # Errors
    /// As for [`Replacement::create`]. A pipe of another user is refused.
    pub fn create(path: &Path) -> io::Result<Target> {
        let place = walk(path, None)?;
        match &place.found {
            Some(found) if is_stream(found) => open_stream(&place, found, OFlags::TRUNC).map(Target::Stream),
            _ => Replacement::in_place(place).map(|file| Target::File(Box::new(file))),
        }
    }

    /// The file or stream, to write it in order.
    pub fn file(&self) -> &File {
        match self {
            Target::File(file) => file.file(),
            Target::Stream(file) => file,
        }
    }

    /// Gives a file its name, as [`Replacement::finish`] does.
    ///
    /// # Errors
    /// Those of [`Replacement::finish`].
    pub fn finish(self) -> io::Result<()> {
        match self {
            Target::File(file) => file.finish(),
            Target::Stream(_) => Ok(()),
        }
    }
}

/// Writes the output that a user has named. A file is replaced as by [`Replacement::finish`].
///
/// # Errors
/// If it cannot be written. An old file is unchanged then.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let target = Target::create(path)?;
    target.file().write_all(content)?;
    target.finish()
}

/// Opens an output that a user has named, to append to it. A file is created if it does not exist.
///
/// # Errors
/// If it cannot be opened, or if another user may have linked the file into its folder.
pub fn append(path: &Path) -> io::Result<File> {
    loop {
        let place = walk(path, None)?;
        let Some(found) = &place.found else {
            let Place { folder, path, name, .. } = place;
            let name = name.ok_or_else(super::folder_error)?;
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            match openat(Folder::from_opened(folder, path), name.as_os_str(), flags, Mode::from_raw_mode(0o666)) {
                // Another process has just created it.
                Err(rustix::io::Errno::EXIST) => continue,
                opened => return Ok(opened?.into()),
            }
        };
        if is_stream(found) {
            return open_stream(&place, found, OFlags::APPEND);
        }
        let folder = fstat(&place.folder)?;
        refuse_planted(&folder, &found.about)?;
        refuse_hard_link(&folder, &found.about)?;
        return reopen(&place, found, OFlags::APPEND | OFlags::NOFOLLOW);
    }
}

fn is_stream(found: &Found) -> bool {
    found.is_descriptor || !matches!(found.kind(), FileType::RegularFile | FileType::Directory)
}

fn open_stream(place: &Place, found: &Found, how: OFlags) -> io::Result<File> {
    if found.is_descriptor {
        // The standard streams keep their position.
        for stream in [stdout(), stderr()] {
            if fstat(stream).is_ok_and(|about| is_same(&about, &found.about)) {
                return Ok(stream.try_clone_to_owned()?.into());
            }
        }
        return reopen(place, found, how);
    }
    refuse_planted(&fstat(&place.folder)?, &found.about)?;
    if found.kind() == FileType::Fifo && !is_trusted(found.about.st_uid) {
        return Err(refusal(format!("it is a named pipe of user {}", found.about.st_uid)));
    }
    reopen(place, found, OFlags::NOFOLLOW)
}

/// Opens what the path has led to, to write it.
fn reopen(place: &Place, found: &Found, flags: OFlags) -> io::Result<File> {
    let name = place.name.as_deref().ok_or_else(super::folder_error)?;
    let flags = flags | OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(&place.folder, name, flags, Mode::empty())?;
    match is_same(&fstat(&opened)?, &found.about) {
        true => Ok(opened.into()),
        false => Err(io::Error::other("it was replaced at this moment")),
    }
}

fn is_same(these: &Stat, those: &Stat) -> bool {
    (these.st_dev, these.st_ino) == (those.st_dev, those.st_ino)
}
