//! Files that vanish with the process, however it ends, until they get their name.
//!
//! Most file systems can create a file without a name (`O_TMPFILE`), which the kernel removes when
//! the last process closes it. The file gets a name when it is complete. File systems without this
//! feature need a temporary name, and so does every file for a moment while it replaces another. A
//! file with a temporary name is locked, and [`remove_leftovers`] removes those that no process
//! holds (`lock`).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, fcntl_setfl, flock, linkat, renameat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;

use super::folder::Folder;
use super::lock::{create_locked, lock_leftover};
use super::openat;

/// A defect that the kill tests must find.
const LEAVES_FILES: bool = cfg!(rowlock_canary = "a-killed-sort-leaves-files");

/// The prefix of temporary names.
pub const PREFIX: &str = ".rowlock-draft-";

/// A file that is removed when dropped, unless it was given its name.
#[derive(Debug)]
pub struct Draft {
    folder: Folder,
    file: File,
    /// The temporary name, if there is one.
    name: Option<String>,
}

impl Draft {
    /// Creates an empty file with these permissions, restricted by the umask, to read and write it.
    ///
    /// # Errors
    /// If no file can be created in the folder.
    pub fn create(folder: &Folder, mode: Mode) -> io::Result<Draft> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match openat(folder, ".", flags, mode) {
            _ if LEAVES_FILES => Draft::create_named(folder, mode),
            Ok(file) if statat(CWD, by_number(&file), AtFlags::empty()).is_ok() => {
                // Locked before it has a name. No other process has it open, so this does not
                // block. Without support for locks, no file is ever taken for a leftover.
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                Ok(Draft { folder: folder.clone(), file: file.into(), name: None })
            }
            // Without /proc it could not be given a name.
            Ok(_) => Draft::create_named(folder, mode),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => Draft::create_named(folder, mode),
            Err(why) => Err(why.into()),
        }
    }

    /// Like [`Draft::create`], for file systems that cannot create files without a name.
    fn create_named(folder: &Folder, mode: Mode) -> io::Result<Draft> {
        loop {
            let name = some_name(PREFIX);
            match create_locked(folder, name.as_str(), mode) {
                Ok(Some(file)) => return Ok(Draft { folder: folder.clone(), file, name: Some(name) }),
                Ok(None) | Err(Errno::EXIST) => {}
                Err(why) => return Err(why.into()),
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Lets all that is written by this descriptor and its duplicates go to the end of the file,
    /// even if others have written to it meanwhile.
    ///
    /// # Errors
    /// If the system reports one.
    pub fn append(&self) -> io::Result<()> {
        Ok(fcntl_setfl(&self.file, OFlags::APPEND)?)
    }

    /// Keeps the file without a name: it vanishes when it is closed.
    ///
    /// # Errors
    /// If the process has too many files open.
    pub fn into_unnamed(self) -> io::Result<File> {
        // Dropping the draft removes its temporary name.
        self.file.try_clone()
    }

    /// Gives the file its final name, which must be a new one.
    ///
    /// # Errors
    /// If the name is in use, or if the folder cannot be written.
    pub fn give_new_name(mut self, name: &OsStr) -> io::Result<()> {
        match &self.name {
            Some(between) => {
                renameat_with(&self.folder, between.as_str(), &self.folder, name, RenameFlags::NOREPLACE)?;
            }
            None => linkat(CWD, by_number(&self.file), &self.folder, name, AtFlags::SYMLINK_FOLLOW)?,
        }
        self.name = None;
        Ok(())
    }

    /// Gives the file its final name. Atomically replaces an existing file of that name.
    ///
    /// # Errors
    /// If the name belongs to a folder, or if the folder cannot be written. The old file is
    /// unchanged then.
    pub fn give_name(mut self, name: &OsStr) -> io::Result<()> {
        // Returns `false` if the name is in use.
        let link = |name: &OsStr| match linkat(CWD, by_number(&self.file), &self.folder, name, AtFlags::SYMLINK_FOLLOW)
        {
            Err(Errno::EXIST) => Ok(false),
            linked => linked.map(|()| true),
        };
        // If nothing is replaced, no temporary name is needed.
        if self.name.is_none() && link(name)? {
            return Ok(());
        }
        while self.name.is_none() {
            let between = some_name(PREFIX);
            self.name = link(between.as_ref())?.then_some(between);
        }
        if let Some(between) = &self.name {
            renameat(&self.folder, between.as_str(), &self.folder, name)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            // Ignores errors: the name may be gone already, or the next process cleans up.
            let _ = unlinkat(&self.folder, name.as_str(), AtFlags::empty());
        }
    }
}

/// Removes files that killed processes left in this folder. Ignores files that it cannot remove,
/// since they may belong to another user.
pub fn remove_leftovers(folder: &Folder) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    if LEAVES_FILES {
        return;
    }
    for entry in entries.flatten() {
        if entry.file_name().to_bytes().starts_with(PREFIX.as_bytes()) {
            let name = entry.file_name();
            if let Ok(Some(_locked)) = lock_leftover(folder, name) {
                let _ = unlinkat(folder, name, AtFlags::empty());
            }
        }
    }
}

/// A temporary name that is unique in this process, very likely among all processes, and that
/// others cannot guess.
pub(crate) fn some_name(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let moment = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    format!("{prefix}{}-{}-{moment:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The path of an open file by its descriptor.
fn by_number(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write;

    use super::*;

    const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

    type Make = fn(&Folder, Mode) -> io::Result<Draft>;
    const BOTH: [Make; 2] = [Draft::create, Draft::create_named];

    fn temporary() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        (place, folder)
    }

    fn names(place: &tempfile::TempDir) -> BTreeSet<String> {
        place.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_dropped_without_its_name_leaves_nothing() {
        let (place, folder) = temporary();
        for make in BOTH {
            drop(make(&folder, MODE).unwrap());
            assert_eq!(names(&place), BTreeSet::new());
        }
    }

    #[test]
    fn a_file_gets_its_name_and_replaces_an_existing_file() {
        for make in BOTH {
            let (place, folder) = temporary();
            for text in ["first", "second"] {
                let draft = make(&folder, MODE).unwrap();
                draft.file().write_all(text.as_bytes()).unwrap();
                draft.give_name("target".as_ref()).unwrap();
                assert_eq!(std::fs::read_to_string(place.path().join("target")).unwrap(), text);
                assert_eq!(names(&place).len(), 1);
            }
        }
    }

    #[test]
    fn a_new_name_replaces_no_file() {
        for make in BOTH {
            let (place, folder) = temporary();
            make(&folder, MODE).unwrap().give_new_name("target".as_ref()).unwrap();
            let why = make(&folder, MODE).unwrap().give_new_name("target".as_ref()).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(names(&place), BTreeSet::from(["target".to_owned()]));
        }
    }

    #[test]
    fn a_failed_rename_leaves_nothing_and_keeps_the_target() {
        for make in BOTH {
            let (place, folder) = temporary();
            std::fs::create_dir(place.path().join("target")).unwrap();
            make(&folder, MODE).unwrap().give_name("target".as_ref()).unwrap_err();
            assert_eq!(names(&place), BTreeSet::from(["target".to_owned()]));
        }
    }

    #[test]
    fn leftovers_are_removed_but_files_in_use_and_folders_are_kept() {
        let (place, folder) = temporary();
        let mut left = Draft::create_named(&folder, MODE).unwrap();
        // As if the process had been killed.
        left.name = None;
        drop(left);
        let in_use = Draft::create_named(&folder, MODE).unwrap();
        let used = in_use.name.clone().unwrap();
        let kept = [format!("{PREFIX}folder"), "another".to_owned(), used];
        std::fs::create_dir(place.path().join(&kept[0])).unwrap();
        std::fs::write(place.path().join(&kept[1]), "").unwrap();
        assert_eq!(names(&place).len(), 4);
        remove_leftovers(&folder);
        assert_eq!(names(&place), BTreeSet::from(kept));
    }

    #[test]
    fn removing_leftovers_does_not_disturb_concurrent_creation() {
        let (place, folder) = temporary();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        Draft::create_named(&folder, MODE).unwrap().give_name("target".as_ref()).unwrap();
                    }
                });
                scope.spawn(|| (0..200).for_each(|_| remove_leftovers(&folder)));
            }
        });
        assert_eq!(names(&place), BTreeSet::from(["target".to_owned()]));
    }
}
