//! Where the book of accounts is while a program runs.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use counters::{Region, RegionError};
use rustix::process::geteuid;
use sys::identity::{Identity, pid_namespace};

const PREFIX: &str = "rowlock-book-";

/// A book that is gone when this is dropped, and its path.
#[derive(Debug)]
pub(crate) struct OwnBook {
    pub(crate) book: Region,
    pub(crate) path: PathBuf,
}

impl OwnBook {
    /// Makes one in memory, or where temporary files are. Also removes those of this user whose makers were killed.
    pub(crate) fn create() -> Result<OwnBook, RegionError> {
        let folders = [PathBuf::from("/dev/shm"), env::temp_dir()];
        OwnBook::create_in(&folders)
    }

    fn create_in(folders: &[PathBuf]) -> Result<OwnBook, RegionError> {
        let mut last = RegionError::System(std::io::ErrorKind::NotFound.into());
        for folder in folders {
            remove_orphans(folder);
            let path = folder.join(name(Identity::own(), pid_namespace()));
            match Region::create(&path) {
                Ok(book) => return Ok(OwnBook { book, path }),
                Err(why) => last = why,
            }
        }
        Err(last)
    }
}

impl Drop for OwnBook {
    fn drop(&mut self) {
        // Somebody may have removed it, which is just as well.
        let _ = fs::remove_file(&self.path);
    }
}

/// A maker makes one book at a time, so its name tells whose it is.
fn name(Identity { pid, started }: Identity, namespace: u64) -> String {
    format!("{PREFIX}{namespace}-{pid}-{started}")
}

/// Who made the book with this name, unless it is from another PID namespace, where numbers mean other processes.
fn maker(name: &str) -> Option<Identity> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('-').map(|number| number.parse::<u64>().ok());
    let [namespace, pid, started] = [numbers.next()??, numbers.next()??, numbers.next()??];
    (namespace == pid_namespace()).then_some(Identity { pid: pid.try_into().ok()?, started })
}

/// Removes the books of makers that are no more. Where that does not work, they stay.
fn remove_orphans(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let maker = entry.file_name().to_str().and_then(maker);
        let is_ours = || entry.metadata().is_ok_and(|about| about.is_file() && about.uid() == geteuid().as_raw());
        if maker.is_some_and(|maker| !maker.is_alive()) && is_ours() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_book_is_gone_with_its_maker_and_so_are_those_of_makers_that_were_killed() {
        let place = tempfile::tempdir().unwrap();
        let folders = ["/nowhere".into(), place.path().to_owned()];
        let dead = Identity { started: 1, ..Identity::own() };
        let files = [name(dead, pid_namespace()), name(dead, 1), "rowlock-book-x".into(), "other".into()];
        for file in &files {
            fs::write(place.path().join(file), "").unwrap();
        }
        let own = OwnBook::create_in(&folders).unwrap();
        assert!(own.path.exists() && Region::open(&own.path).is_ok());
        drop(own);
        let names = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<String> = names.collect();
        left.sort();
        let mut expected = files[1..].to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn without_a_place_there_is_no_book() {
        assert!(OwnBook::create_in(&["/nowhere".into()]).is_err());
        assert!(OwnBook::create_in(&[]).is_err());
    }
}
