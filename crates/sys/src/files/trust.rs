//! Which users a file can be trusted to: this one, and root.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, io};

use rustix::fs::Stat;
use rustix::process::geteuid;

/// The permission bits of a mode.
pub(super) const PERMISSIONS: u32 = 0o7777;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
pub(super) const WRITABLE_BY_GROUP: u32 = 0o020;

/// Whether a user is this one or root. Root has another number in a user namespace that does not
/// contain it: that of the root folder's owner.
pub(super) fn is_trusted(user: u32) -> bool {
    static OWNER_OF_ROOT: OnceLock<u32> = OnceLock::new();
    let owner = || *OWNER_OF_ROOT.get_or_init(|| fs::metadata("/").map_or(0, |about| about.uid()));
    user == geteuid().as_raw() || user == 0 || user == owner()
}

/// Whether another user can write to a file, or create and remove files in a folder.
pub(super) fn is_writable_by_others(mode: u32) -> bool {
    mode & WRITABLE_BY_OTHERS != 0
}

pub(super) fn refusal(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Refuses what another user may have planted in a sticky folder for all users, as the kernel does
/// if `fs.protected_symlinks`, `protected_fifos` and `protected_regular` are set.
pub(super) fn refuse_planted(folder: &Stat, about: &Stat) -> io::Result<()> {
    let is_common = folder.st_mode & STICKY != 0 && is_writable_by_others(folder.st_mode);
    if is_common && !is_trusted(about.st_uid) && about.st_uid != folder.st_uid {
        return Err(refusal(format!("it belongs to user {}, in a folder that other users can write to", about.st_uid)));
    }
    Ok(())
}

/// Refuses to write into an existing file that another user may have linked into this folder. A
/// replaced file needs no such check, since its other names keep the old content.
pub(super) fn refuse_hard_link(folder: &Stat, about: &Stat) -> io::Result<()> {
    let is_safe = is_trusted(folder.st_uid) && !is_writable_by_others(folder.st_mode);
    if about.st_nlink > 1 && !is_safe {
        return Err(refusal("it has a second name, and its folder does not belong to this user alone".to_owned()));
    }
    Ok(())
}

/// Refuses a folder or a file of a cache unless it belongs to this user and no other can change it.
pub(super) fn require_private(about: &Stat) -> io::Result<()> {
    if about.st_uid != geteuid().as_raw() {
        return Err(refusal(format!("it belongs to user {}", about.st_uid)));
    }
    if is_writable_by_others(about.st_mode) {
        return Err(refusal("other users can write to it; `chmod go-w` prevents that".to_owned()));
    }
    Ok(())
}

/// Whether a folder of this user is writable by its group, but was not opened to all users.
pub(super) fn is_shared_by_umask(about: &Stat) -> bool {
    about.st_uid == geteuid().as_raw() && about.st_mode & (WRITABLE_BY_OTHERS | STICKY) == WRITABLE_BY_GROUP
}

/// Whether only this user and root can replace this folder, as far as its existing ancestors tell.
pub fn is_safe_from_others(folder: &Path) -> bool {
    folder.ancestors().skip(1).filter_map(|folder| fs::metadata(folder).ok()).all(|about| has_safe_entries(&about))
}

/// The system's folder for temporary files: TMPDIR, or else `/tmp`.
///
/// # Errors
/// If there is none, or if another user could replace the files in it.
pub fn temporary_folder() -> io::Result<PathBuf> {
    let named = env::temp_dir();
    let folder = fs::canonicalize(&named).map_err(|why| {
        io::Error::new(why.kind(), format!("{}: {why}; let TMPDIR name another folder", named.display()))
    })?;
    for folder in folder.ancestors() {
        let about = fs::metadata(folder)?;
        if !has_safe_entries(&about) {
            return Err(refusal(format!(
                "in {}, which belongs to user {}, other users could replace temporary files; let TMPDIR name another \
                 folder",
                folder.display(),
                about.uid()
            )));
        }
    }
    Ok(folder)
}

/// Whether other users can neither remove nor rename what this user has in a folder.
fn has_safe_entries(folder: &Metadata) -> bool {
    is_trusted(folder.uid()) && (!is_writable_by_others(folder.mode()) || folder.mode() & STICKY != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_could_replace_is_not_safe() {
        let within = tempfile::tempdir().unwrap();
        for (mode, is_safe) in [(0o755, true), (0o777, false), (0o775, false), (0o1777, true)] {
            fs::set_permissions(within.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_safe_from_others(&within.path().join("a/b")), is_safe, "{mode:o}");
        }
    }
}
