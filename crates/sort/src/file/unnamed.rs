//! Files that are gone with the process, however that ends.
//!
//! Most file systems can make a file that has no name (`O_TMPFILE`): the kernel removes it when nobody has it open any more. It gets a name when it
//! is whole. Where there is no such thing, and for an instant while a finished file replaces another, there is a name that tells what
//! it is, and the file is locked (`flock`). A lock ends with its process, so a file of such a name that is not locked was left by a process that was
//! killed, and whoever makes the next temporary file in the folder removes it.
//!
//! The one who makes a file with a name and the one who cleans up may meet between the making and the locking. Both want the lock, and whoever
//! has it looks again: the cleaner whether the name is still that file's, the maker whether the file still has its name; if not, it makes another.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock, fstat, linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::folder::Folder;

/// A defect that the kill tests must find.
const LEAVES_FILES: bool = cfg!(rowlock_canary = "a-killed-sort-leaves-files");

/// What the names of temporary files begin with.
pub(super) const PREFIX: &str = ".rowlock-sort-";

/// A file of which nothing remains when it is dropped before it was given its name.
pub(super) struct Unnamed {
    folder: Arc<Folder>,
    /// What it is called until then, if anything.
    name: Option<String>,
}

/// Makes an empty file with these permissions, less what the process masks out.
pub(super) fn create(folder: &Arc<Folder>, mode: Mode) -> io::Result<(File, Unnamed)> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    match openat(folder, ".", flags, mode) {
        _ if LEAVES_FILES => create_named(folder, mode),
        Ok(file) if statat(CWD, by_number(&file), AtFlags::empty()).is_ok() => {
            // It is locked before it has a name for the first time. No other process can have it open, so this waits for nobody; and where there
            // are no locks, nothing is ever taken for a leftover.
            let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
            Ok((File::from(file), Unnamed { folder: Arc::clone(folder), name: None }))
        }
        // There is no /proc, so it could not be given a name.
        Ok(_) => create_named(folder, mode),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => create_named(folder, mode),
        Err(why) => Err(why.into()),
    }
}

/// As [`create`], where files without names cannot be had.
fn create_named(folder: &Arc<Folder>, mode: Mode) -> io::Result<(File, Unnamed)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let name = some_name();
        let file = match openat(folder, name.as_str(), flags, mode) {
            Ok(file) => File::from(file),
            Err(Errno::EXIST) => continue,
            Err(why) => return Err(why.into()),
        };
        while flock(&file, FlockOperation::LockExclusive) == Err(Errno::INTR) {}
        if fstat(&file)?.st_nlink > 0 {
            return Ok((file, Unnamed { folder: Arc::clone(folder), name: Some(name) }));
        }
    }
}

impl Unnamed {
    /// Takes its name away at once, as far as there is one: it cannot be given another any more.
    pub(super) fn without_name(mut self) {
        self.remove();
    }

    /// Gives the file, which is this one's, its final name. What had that name loses it in the same instant.
    pub(super) fn give_name(mut self, file: &File, name: &std::ffi::OsStr) -> io::Result<()> {
        let folder = &*self.folder;
        if self.name.is_none() {
            // Where nothing is replaced it needs no other name in between.
            match linkat(CWD, by_number(file), folder, name, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(why) => return Err(why.into()),
            }
            let between = loop {
                let between = some_name();
                match linkat(CWD, by_number(file), folder, between.as_str(), AtFlags::SYMLINK_FOLLOW) {
                    Ok(()) => break between,
                    Err(Errno::EXIST) => {}
                    Err(why) => return Err(why.into()),
                }
            };
            self.name = Some(between);
        }
        if let Some(between) = &self.name {
            renameat(&*self.folder, between.as_str(), &*self.folder, name)?;
        }
        self.name = None;
        Ok(())
    }

    fn remove(&mut self) {
        if let Some(name) = self.name.take() {
            // That it is gone already is as well; for the rest, the next one cleans up.
            let _ = unlinkat(&*self.folder, name.as_str(), AtFlags::empty());
        }
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Removes what killed processes have left in this folder. What cannot be removed stays: it may be somebody else's.
pub(super) fn remove_leftovers(folder: &Folder) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    if LEAVES_FILES {
        return;
    }
    for entry in entries.flatten() {
        if entry.file_name().to_bytes().starts_with(PREFIX.as_bytes()) {
            let _ = remove_leftover(folder, entry.file_name());
        }
    }
}

fn remove_leftover(folder: &Folder, name: &std::ffi::CStr) -> rustix::io::Result<()> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    let about = fstat(&file)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let now = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (now.st_dev, now.st_ino) == (about.st_dev, about.st_ino) {
        unlinkat(folder, name, AtFlags::empty())?;
    }
    Ok(())
}

/// A name that no other file of this process has, nor, most likely, of another.
fn some_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let moment = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    format!("{PREFIX}{}-{}-{moment:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The file by the number under which this process has it open.
fn by_number(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write;
    use std::path::Path;

    use super::*;

    fn folder(path: &Path) -> Arc<Folder> {
        Arc::new(Folder::open(path).unwrap())
    }

    fn names(path: &Path) -> BTreeSet<String> {
        path.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_is_dropped_before_it_has_its_name_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        for make in [create, create_named] {
            drop(make(&folder, Mode::RUSR | Mode::WUSR).unwrap());
            assert_eq!(names(place.path()), BTreeSet::new());
        }
    }

    #[test]
    fn a_file_gets_its_name_whether_or_not_it_had_another_and_replaces_what_had_it() {
        for make in [create, create_named] {
            let place = tempfile::tempdir().unwrap();
            let folder = folder(place.path());
            let target = place.path().join("target");
            for text in ["first", "second"] {
                let (mut file, unnamed) = make(&folder, Mode::RUSR | Mode::WUSR).unwrap();
                file.write_all(text.as_bytes()).unwrap();
                unnamed.give_name(&file, "target".as_ref()).unwrap();
                assert_eq!(std::fs::read_to_string(&target).unwrap(), text);
                assert_eq!(names(place.path()).len(), 1);
            }
        }
    }

    #[test]
    fn what_cannot_have_its_name_leaves_nothing_and_the_target_as_it_was() {
        for make in [create, create_named] {
            let place = tempfile::tempdir().unwrap();
            std::fs::create_dir(place.path().join("target")).unwrap();
            let (file, unnamed) = make(&folder(place.path()), Mode::RUSR | Mode::WUSR).unwrap();
            unnamed.give_name(&file, "target".as_ref()).unwrap_err();
            assert_eq!(names(place.path()), BTreeSet::from(["target".to_owned()]));
        }
    }

    #[test]
    fn leftovers_are_removed_and_what_is_in_use_or_no_file_is_not() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        let (left, unnamed) = create_named(&folder, Mode::RUSR | Mode::WUSR).unwrap();
        // As if the process had been killed.
        std::mem::forget(unnamed);
        drop(left);
        let (_used, unnamed) = create_named(&folder, Mode::RUSR | Mode::WUSR).unwrap();
        let used = unnamed.name.clone().unwrap();
        let kept = [format!("{PREFIX}folder"), "another".to_owned(), used];
        std::fs::create_dir(place.path().join(&kept[0])).unwrap();
        std::fs::write(place.path().join(&kept[1]), "").unwrap();
        assert_eq!(names(place.path()).len(), 4);
        remove_leftovers(&folder);
        assert_eq!(names(place.path()), BTreeSet::from(kept));
    }

    #[test]
    fn who_cleans_up_takes_nothing_from_those_who_make_files_meanwhile() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder(place.path());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let (file, unnamed) = create_named(&folder, Mode::RUSR | Mode::WUSR).unwrap();
                        unnamed.give_name(&file, "target".as_ref()).unwrap();
                    }
                });
                scope.spawn(|| (0..200).for_each(|_| remove_leftovers(&folder)));
            }
        });
        assert_eq!(names(place.path()), BTreeSet::from(["target".to_owned()]));
    }
}
