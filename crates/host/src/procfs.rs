//! Files of the kernel, and processes in `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use sys::identity::Stat;

/// The text of a file. Empty if it cannot be read.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The number in a file. `None` if it contains something else, such as `max`, or cannot be read.
pub(crate) fn number<N: FromStr>(path: impl AsRef<Path>) -> Option<N> {
    read(path).trim().parse().ok()
}

/// The descendants of `ancestor`, including ended ones that have not been reaped.
pub(crate) fn descendants(ancestor: u32) -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<Stat> = ids.filter_map(Stat::of).collect();
    let mut family = BTreeSet::from([ancestor]);
    // A child may have a lower id than its parent, so one pass may not find all.
    loop {
        let children: Vec<Stat> = others.extract_if(.., |process| family.contains(&process.parent)).collect();
        if children.is_empty() {
            family.remove(&ancestor);
            return family;
        }
        family.extend(children.iter().map(|child| child.pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_until_they_are_reaped() {
        // The shell writes a line once its child exists.
        let mut shell = testing::command("sh");
        let mut shell = testing::Child::start_piped(shell.args(["-c", "sleep 1000 & echo $!; wait"]));
        let grandchild: u32 = shell.read_line().parse().unwrap();

        let own = std::process::id();
        let family = descendants(own);
        let child = shell.id();
        assert!(family.contains(&child) && family.contains(&grandchild), "{family:?}");
        assert_eq!(descendants(child), BTreeSet::from([grandchild]));

        let grandchild = rustix::process::Pid::from_raw(grandchild as i32).unwrap();
        rustix::process::kill_process(grandchild, rustix::process::Signal::KILL).unwrap();
        shell.wait();
        assert!(!descendants(own).contains(&child));
    }
}
