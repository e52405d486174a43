//! A file that replaces its target, if there is one, when it is finished.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::{Access, AtFlags, FileType, Mode, Stat, StatxAttributes, StatxFlags, accessat, fstat, statx};

use super::draft::{self, Draft};
use super::folder::Folder;
use super::folder_error;
use super::trust::{PERMISSIONS, refuse_planted};
use super::walk::{Place, walk};

/// How to write to a file that cannot be replaced.
const IN_PLACE: &str = "so name /dev/stdout and redirect the output to the old one, which is then written in place";
/// The set-user-ID and set-group-ID bits.
const SET_ID_BITS: u32 = 0o6000;

/// An unfinished file and the target that it will replace. It leaves no trace if it is dropped.
#[derive(Debug)]
pub struct Replacement {
    draft: Draft,
    folder: Folder,
    /// The name in its folder.
    name: OsString,
    replaced: Option<Stat>,
}

impl Replacement {
    /// Creates a file that replaces the target when it is finished, and not before. The new file
    /// gets owner and permissions of the old one as far as the process may set them. If the target
    /// is a symbolic link, the file that it points to is replaced. Leftovers of killed processes
    /// are removed from the folder.
    ///
    /// # Errors
    /// If no file can be created, or if it could not replace the target: it is no regular file, may
    /// not be written, or a link of another user leads to it.
    pub fn create(path: &Path) -> io::Result<Replacement> {
        let place = walk(path, None)?;
        if place
            .found
            .as_ref()
            .is_some_and(|found| !matches!(found.kind(), FileType::RegularFile | FileType::Directory))
        {
            return Err(io::Error::other("there is something that is no plain file"));
        }
        Replacement::in_place(place)
    }

    pub(super) fn in_place(place: Place) -> io::Result<Replacement> {
        let Place { folder, path, name, found } = place;
        let Some(name) = name else { return Err(folder_error()) };
        let folder = Folder::from_opened(folder, path);
        let replaced = found.map(|found| found.about);
        if let Some(about) = &replaced {
            check_replaced(&folder, &name, about)?;
        }
        let in_folder = |why: io::Error| {
            let kind = why.kind();
            // The old file may well be writable.
            let must_be_new = replaced.is_some() && kind == io::ErrorKind::PermissionDenied;
            let advice =
                if must_be_new { format!("; a new file would replace the old one, {IN_PLACE}") } else { String::new() };
            io::Error::new(kind, format!("folder {}: {why}{advice}", folder.path().display()))
        };
        // A replaced file may be private; otherwise the process's umask applies.
        let mode = if replaced.is_some() { 0o600 } else { 0o666 };
        draft::remove_leftovers(&folder);
        let draft = Draft::create(&folder, Mode::from_raw_mode(mode)).map_err(in_folder)?;
        Ok(Replacement { draft, folder, name, replaced })
    }

    /// The new file, to read and write it.
    pub fn file(&self) -> &File {
        self.draft.file()
    }

    /// The folder of the file, with links resolved.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Gives the file its name and flushes it to the disk: after a crash of the machine, either the
    /// old or the new file is there, and after this function has returned, the new one.
    ///
    /// # Errors
    /// If the file cannot be flushed or renamed. The target is unchanged then, unless only flushing
    /// the folder failed.
    pub fn finish(self) -> io::Result<()> {
        if let Some(replaced) = &self.replaced {
            keep_owner_and_permissions(self.draft.file(), replaced)?;
        }
        self.draft.file().sync_all()?;
        self.draft.give_name(&self.name).map_err(|why| {
            let folder = self.folder.path().display();
            let said = format!("it is complete, but cannot be given its name in folder {folder}: {why}");
            io::Error::new(why.kind(), said)
        })?;
        self.folder.sync()
    }
}

/// Checks in advance whether an existing target may be replaced.
fn check_replaced(folder: &Folder, name: &OsStr, about: &Stat) -> io::Result<()> {
    if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
        return Err(folder_error());
    }
    refuse_planted(&fstat(folder)?, about)?;
    accessat(folder, name, Access::WRITE_OK, AtFlags::EACCESS)?;
    let mount = statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    if mount.is_ok_and(|about| about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("it is a mount point, which nothing can replace, {IN_PLACE}"),
        ));
    }
    Ok(())
}

/// Copies owner and permissions to a file as far as this process may.
fn keep_owner_and_permissions(file: &File, of: &Stat) -> io::Result<()> {
    let now = file.metadata()?;
    let keeps_owner = now.uid() == of.st_uid || fchown(file.as_fd(), Some(of.st_uid), None).is_ok();
    let keeps_group = now.gid() == of.st_gid || fchown(file.as_fd(), None, Some(of.st_gid)).is_ok();
    // Set-ID bits must not apply to another owner or group.
    let lost = if keeps_owner && keeps_group { 0 } else { SET_ID_BITS };
    // Must be last, since a change of owner clears some permissions.
    file.set_permissions(Permissions::from_mode(of.st_mode & PERMISSIONS & !lost))
}
