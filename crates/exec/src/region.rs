//! The temporary file of the statistics region during a program's run.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use counters::{Region, RegionError};
use rustix::process::geteuid;
use sys::identity::{Identity, pid_namespace};

const PREFIX: &str = "rowlock-book-";

/// A statistics region whose file is removed on drop, with its path.
#[derive(Debug)]
pub(crate) struct TemporaryRegion {
    pub(crate) region: Region,
    pub(crate) path: PathBuf,
}

impl TemporaryRegion {
    /// Creates a region in shared memory or in the folder of temporary files. Also removes this
    /// user's regions of killed processes.
    pub(crate) fn create() -> Result<TemporaryRegion, RegionError> {
        let folders = [PathBuf::from("/dev/shm"), env::temp_dir()];
        TemporaryRegion::create_in(&folders)
    }

    fn create_in(folders: &[PathBuf]) -> Result<TemporaryRegion, RegionError> {
        let mut last = RegionError::System(std::io::ErrorKind::NotFound.into());
        for folder in folders {
            remove_abandoned(folder);
            let path = folder.join(file_name(Identity::own(), pid_namespace()));
            match Region::create(&path) {
                Ok(region) => return Ok(TemporaryRegion { region, path }),
                Err(why) => last = why,
            }
        }
        Err(last)
    }
}

impl Drop for TemporaryRegion {
    fn drop(&mut self) {
        // Another process may have removed it already.
        let _ = fs::remove_file(&self.path);
    }
}

/// A process has one region at a time, so its identity makes the name unique.
fn file_name(Identity { pid, started }: Identity, namespace: u64) -> String {
    format!("{PREFIX}{namespace}-{pid}-{started}")
}

/// The creator of the region with this name. `None` if it is from another PID namespace, in which
/// the ids have another meaning.
fn creator(name: &str) -> Option<Identity> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('-').map(|number| number.parse::<u64>().ok());
    let [namespace, pid, started] = [numbers.next()??, numbers.next()??, numbers.next()??];
    (namespace == pid_namespace()).then_some(Identity { pid: pid.try_into().ok()?, started })
}

/// Removes the regions of processes that have ended. Failures are ignored.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let creator = entry.file_name().to_str().and_then(creator);
        let is_ours = || entry.metadata().is_ok_and(|about| about.is_file() && about.uid() == geteuid().as_raw());
        if creator.is_some_and(|creator| !creator.is_alive()) && is_ours() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_removed_on_drop_and_so_are_those_of_killed_processes() {
        let place = tempfile::tempdir().unwrap();
        let folders = ["/nowhere".into(), place.path().to_owned()];
        let dead = Identity { started: 1, ..Identity::own() };
        let files = [file_name(dead, pid_namespace()), file_name(dead, 1), "rowlock-book-x".into(), "other".into()];
        for file in &files {
            fs::write(place.path().join(file), "").unwrap();
        }
        let own = TemporaryRegion::create_in(&folders).unwrap();
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
    fn without_a_writable_folder_there_is_no_region() {
        assert!(TemporaryRegion::create_in(&["/nowhere".into()]).is_err());
        assert!(TemporaryRegion::create_in(&[]).is_err());
    }
}
