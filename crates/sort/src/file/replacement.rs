//! A file that replaces its target, if there is one, when it is finished.

use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, Mode, StatxAttributes, StatxFlags, accessat, statx};

use super::folder::Folder;
use super::folder_error;
use super::uncached::Uncached;
use super::unnamed::{self, Unnamed};

/// The limit for chains of symbolic links, as in the kernel.
const MOST_LINKS: usize = 40;

/// The permission bits of a file's mode.
const PERMISSIONS: u32 = 0o7777;
/// The set-user-ID and set-group-ID bits.
const SET_ID_BITS: u32 = 0o6000;

/// An unfinished file and the target that it will replace.
pub(super) struct Replacement {
    pub(super) folder: Arc<Folder>,
    pub(super) file: Uncached,
    unnamed: Unnamed,
    /// The name in its folder.
    name: OsString,
    replaced: Option<Metadata>,
}

impl Replacement {
    pub(super) fn create(path: &Path) -> io::Result<Replacement> {
        let target = resolve(path)?;
        let Some(name) = target.file_name() else { return Err(folder_error()) };
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let in_folder = |why: io::Error| io::Error::new(why.kind(), format!("folder {}: {why}", parent.display()));
        let folder = Arc::new(Folder::open(parent).map_err(in_folder)?);
        let replaced = check_replaced(&target)?;
        // A replaced file may be private; otherwise the process's umask applies.
        let mode = if replaced.is_some() { 0o600 } else { 0o666 };
        unnamed::remove_leftovers(&folder);
        let (file, unnamed) = unnamed::create(&folder, Mode::from_raw_mode(mode)).map_err(in_folder)?;
        Ok(Replacement { folder, file: Uncached::new(file), unnamed, name: name.to_owned(), replaced })
    }

    pub(super) fn finish(self, length: u64) -> io::Result<()> {
        let file = &self.file.file;
        file.set_len(length)?;
        if let Some(replaced) = &self.replaced {
            keep_owner_and_permissions(file, replaced)?;
        }
        self.file.sync().map_err(|why| self.folder.explain(why))?;
        self.unnamed.give_name(file, &self.name).map_err(|why| {
            let folder = self.folder.path.display();
            let said = format!("it is complete, but cannot be given its name in folder {folder}: {why}");
            io::Error::new(why.kind(), said)
        })?;
        self.folder.sync()
    }
}

/// Follows symbolic links to the final path, which need not exist.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(link) => path = path.parent().unwrap_or(Path::new("")).join(link),
            // Not a symbolic link, or nothing there.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("there are too many levels of symbolic links"))
}

/// Checks before the sort whether an existing target may be replaced. Returns its metadata.
fn check_replaced(target: &Path) -> io::Result<Option<Metadata>> {
    let about = match fs::symlink_metadata(target) {
        Ok(about) => about,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    if about.is_dir() {
        return Err(folder_error());
    }
    accessat(CWD, target, Access::WRITE_OK, AtFlags::EACCESS)?;
    let mount = statx(CWD, target, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    if mount.is_ok_and(|about| about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "it is a mount point, so it cannot be replaced"));
    }
    Ok(Some(about))
}

/// Copies owner and permissions to a file as far as this process may.
fn keep_owner_and_permissions(file: &fs::File, of: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    let keeps_owner = now.uid() == of.uid() || fchown(file, Some(of.uid()), None).is_ok();
    let keeps_group = now.gid() == of.gid() || fchown(file, None, Some(of.gid())).is_ok();
    // Set-ID bits must not apply to another owner or group.
    let lost = if keeps_owner && keeps_group { 0 } else { SET_ID_BITS };
    // Must be last, since a change of owner clears some permissions.
    file.set_permissions(Permissions::from_mode(of.mode() & PERMISSIONS & !lost))
}
