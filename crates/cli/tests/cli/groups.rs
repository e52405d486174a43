//! The control groups that rowlock creates: for its programs, for jobs, and to throttle the disk.

use std::fs;
use std::path::{Path, PathBuf};

/// Where all hierarchies are mounted.
const HIERARCHIES: &str = "/sys/fs/cgroup";
/// The beginnings of their names, which the id of their creator follows.
const NAMES: [&str; 3] = ["rowlock-program-", "rowlock-job-", "rowlock-disk-"];

/// The groups that this process has created.
pub(crate) fn of(process: u32) -> Vec<String> {
    found(|creator| creator == process)
}

/// The groups whose creators have ended.
pub(crate) fn abandoned() -> Vec<String> {
    found(|creator| !Path::new(&format!("/proc/{creator}")).exists())
}

fn found(is_wanted: impl Fn(u32) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(HIERARCHIES)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if creator(&entry.file_name().to_string_lossy()).is_some_and(&is_wanted) {
                    found.push(entry.path().display().to_string());
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

fn creator(name: &str) -> Option<u32> {
    let rest = NAMES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    rest.split('-').next()?.parse().ok()
}
