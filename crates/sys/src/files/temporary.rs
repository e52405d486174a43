//! Folders for temporary files whose path another program needs.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::draft::{remove_leftovers, some_name};
use super::folder::Folder;
use super::{openat, removal};
use crate::containment::Successor;

/// A folder that only this user can enter. When it is dropped or this process ends, however that
/// happens, it is removed with its contents. If the process that does so was killed as well, it
/// is removed when the next one is created.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    contents: Contents,
    within: Folder,
    name: String,
    /// Locked as long as the folder is in use, to distinguish it from one of a killed process.
    opened: Folder,
    /// `None` after its turn.
    successor: Option<Successor>,
}

/// The content that is removed with a temporary folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// The files with these names.
    Files(&'static [&'static str]),
    /// All that it contains, also in other folders.
    Anything,
}

impl TemporaryFolder {
    /// Creates a folder in `within`, whose name begins with `prefix`. It will contain only these
    /// files. Removes folders of killed processes with the same prefix.
    ///
    /// # Errors
    /// If no folder can be created.
    pub fn create(within: &Path, prefix: &str, files: &'static [&'static str]) -> io::Result<TemporaryFolder> {
        TemporaryFolder::with(within, prefix, Contents::Files(files))
    }

    /// As [`TemporaryFolder::create`], for other programs, which may have any files and folders in
    /// it. If this process is killed, they have [a while](Successor::removing_anything) to end.
    ///
    /// # Errors
    /// If no folder can be created.
    pub fn create_for_programs(within: &Path, prefix: &str) -> io::Result<TemporaryFolder> {
        TemporaryFolder::with(within, prefix, Contents::Anything)
    }

    fn with(within: &Path, prefix: &str, contents: Contents) -> io::Result<TemporaryFolder> {
        let folder = Folder::open(within)?;
        remove_abandoned(&folder, prefix, contents);
        loop {
            let name = some_name(prefix);
            let successor = match contents {
                Contents::Files(files) => Successor::removing(&folder, &name, files)?,
                Contents::Anything => Successor::removing_anything(&folder, &name)?,
            };
            mkdirat(&folder, name.as_str(), Mode::RWXU)?;
            // A process that removes abandoned folders may have been faster than the lock.
            let Some(opened) = lock(&folder, &name) else { continue };
            let path = within.join(&name);
            let successor = Some(successor);
            return Ok(TemporaryFolder { path, contents, within: folder, name, opened, successor });
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file in the folder, to write it.
    ///
    /// # Errors
    /// If it exists or cannot be created.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(&self.opened, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Reads a file of the folder.
    ///
    /// # Errors
    /// As for [`Folder::read`].
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.opened.read(name)
    }

    /// Removes a file of the folder if it exists.
    ///
    /// # Errors
    /// As for [`Folder::remove`].
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.opened.remove(name)
    }

    /// Removes the folder with its files.
    ///
    /// # Errors
    /// If it stays, for instance because other files have been added.
    pub fn close(mut self) -> io::Result<()> {
        self.try_to_remove()
    }

    fn try_to_remove(&mut self) -> io::Result<()> {
        empty(&self.opened, self.contents);
        let remove = || unlinkat(&self.within, self.name.as_str(), AtFlags::REMOVEDIR);
        let removed = remove();
        // It tries for a while.
        drop(self.successor.take());
        match removed.or_else(|_| remove()) {
            Err(error) if error != Errno::NOENT => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = self.try_to_remove();
    }
}

/// Removes the folders of this user's killed processes, with their contents. Ignores errors.
fn remove_abandoned(within: &Folder, prefix: &str, contents: Contents) {
    for entry in Dir::read_from(within).into_iter().flatten().flatten() {
        if let Ok(name) = entry.file_name().to_str()
            && name.starts_with(prefix)
            && let Some(folder) = lock(within, name)
        {
            empty(&folder, contents);
            let _ = unlinkat(within, name, AtFlags::REMOVEDIR);
        }
    }
}

fn empty(folder: &Folder, contents: Contents) {
    match contents {
        Contents::Files(files) => {
            for name in files {
                let _ = folder.remove(*name);
            }
            remove_leftovers(folder);
        }
        Contents::Anything => removal::empty(folder.as_fd(), None, removal::DEPTH),
    }
}

/// Opens and locks a folder of this user. Returns `None` if it is used or belongs to another user.
fn lock(within: &Folder, name: &str) -> Option<Folder> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(within, name, flags, Mode::empty()).ok()?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    let about = fstat(&opened).ok()?;
    (about.st_uid == geteuid().as_raw() && about.st_nlink > 0).then(|| Folder::from_opened(opened, name.into()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;

    use super::*;

    const FILES: &[&str] = &["sorted", "report"];

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_abandoned_folders_of_ours_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, file: &str| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).and_then(|()| fs::write(folder.join(file), "")).unwrap();
        };
        make("prefix-a", "sorted");
        make("prefix-b", "thesis.txt");
        make("other", "sorted");
        symlink(parent.path().join("other"), parent.path().join("prefix-c")).unwrap();
        rustix::fs::mkfifoat(CWD, parent.path().join("prefix-d"), Mode::RWXU).unwrap();
        let used = TemporaryFolder::create(parent.path(), "prefix-", FILES).unwrap();
        used.create_file("sorted").unwrap();
        assert!(!parent.path().join("prefix-a").exists() && parent.path().join("other/sorted").exists());
        let another = TemporaryFolder::create(parent.path(), "prefix-", FILES).unwrap();
        assert!(used.path().join("sorted").exists());
        drop((used, another));
        assert_eq!(names(parent.path()), ["other", "prefix-b", "prefix-c", "prefix-d"]);
    }

    #[test]
    fn it_is_an_error_if_the_folder_stays() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::create(parent.path(), "prefix-", FILES).unwrap();
        folder.create_file("sorted").unwrap();
        let path = folder.path().to_owned();
        fs::write(path.join("thesis.txt"), "").unwrap();
        assert_eq!(folder.close().unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
        assert_eq!(names(&path), ["thesis.txt"]);
        let folder = TemporaryFolder::create(parent.path(), "other-", FILES).unwrap();
        folder.create_file("sorted").and_then(|_| folder.close()).unwrap();
        assert_eq!(names(parent.path()).len(), 1);
    }

    /// Adds folders in each other, with a file, a link that leads out of them, and a pipe.
    fn fill(folder: &Path, outside: &Path) {
        let inner = folder.join("a/b");
        fs::create_dir_all(&inner).and_then(|()| fs::write(inner.join("file"), "")).unwrap();
        symlink(outside, inner.join("link")).and_then(|()| symlink(outside, folder.join("link"))).unwrap();
        rustix::fs::mkfifoat(CWD, inner.join("pipe"), Mode::RWXU).unwrap();
    }

    #[test]
    fn all_that_programs_have_put_into_a_folder_is_removed_and_no_link_is_followed() {
        let (parent, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("thesis.txt"), "").unwrap();
        let abandoned = parent.path().join("prefix-a");
        fs::create_dir(&abandoned).unwrap();
        fill(&abandoned, outside.path());
        let folder = TemporaryFolder::create_for_programs(parent.path(), "prefix-").unwrap();
        assert!(!abandoned.exists());
        fill(folder.path(), outside.path());
        drop(folder);
        assert!(names(parent.path()).is_empty());
        assert_eq!(names(outside.path()), ["thesis.txt"]);
    }

    #[test]
    fn nothing_stays_of_a_folder_when_its_process_is_killed() {
        testing::isolated_by(
            |mut this| {
                let place = tempfile::tempdir().unwrap();
                let mut child = testing::Child::start_piped(this.env("PLACE", place.path()));
                while !child.read_line().contains("begun") {}
                assert_eq!(names(place.path()).len(), 1);
                child.send(libc::SIGKILL);
                child.wait().expect_signal(libc::SIGKILL);
                while !names(place.path()).is_empty() {
                    std::thread::yield_now();
                }
            },
            || {
                let place = std::env::var_os("PLACE").unwrap();
                let folder = TemporaryFolder::create(Path::new(&place), "prefix-", FILES).unwrap();
                folder.create_file("sorted").unwrap();
                println!("begun");
                std::thread::park();
            },
        );
    }
}
