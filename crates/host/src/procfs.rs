//! Processes and threads in `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// The needed fields of a `stat` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// `R` running or ready, `S` and `D` asleep, `Z` ended, and others.
    pub(crate) state: u8,
    /// The parent's process id.
    parent: i32,
}

impl Stat {
    /// Parses `/proc/PID/stat` or `/proc/PID/task/TID/stat`.
    pub(crate) fn parse(text: &str) -> Option<Stat> {
        // The second field is the name in parentheses, and can contain blanks and parentheses
        // itself.
        let (_, fields) = text.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = *fields.next()?.as_bytes().first()?;
        Some(Stat { state, parent: fields.next()?.parse().ok()? })
    }

    /// The fields of process `id`. `None` if it is gone.
    fn of(id: i32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }
}

/// All visible processes.
fn processes() -> BTreeMap<i32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Some((id, Stat::of(id)?))).collect()
}

/// The descendants of `ancestor`, including ended ones that have not been reaped.
pub(crate) fn descendants(ancestor: i32) -> BTreeSet<i32> {
    let processes = processes();
    let mut family = BTreeSet::from([ancestor]);
    // A child may have a lower id than its parent, so one pass may not find all.
    loop {
        let before = family.len();
        family.extend(
            processes.iter().filter(|(_, stat)| family.contains(&stat.parent)).map(|(&id, _)| id).collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    family.remove(&ancestor);
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_contain_blanks_and_parentheses() {
        let text = "42 (a) R (b) c) S 7 42 42 0 -1 4194304\n";
        assert_eq!(Stat::parse(text), Some(Stat { state: b'S', parent: 7 }));
    }

    #[test]
    fn invalid_stat_files_are_refused() {
        for text in ["", "42 (sh", "42 (sh) ", "42 (sh) R", "42 (sh) R x 1"] {
            assert_eq!(Stat::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn descendants_are_found_until_they_are_reaped() {
        // The shell writes a line once its child exists.
        let mut shell = testing::command("sh");
        let mut shell = testing::Child::start_piped(shell.args(["-c", "sleep 1000 & echo $!; wait"]));
        let grandchild: i32 = shell.read_line().parse().unwrap();

        let own = std::process::id() as i32;
        let family = descendants(own);
        let child = shell.id() as i32;
        assert!(family.contains(&child) && family.contains(&grandchild), "{family:?}");
        assert_eq!(descendants(child), BTreeSet::from([grandchild]));

        let grandchild = rustix::process::Pid::from_raw(grandchild).unwrap();
        rustix::process::kill_process(grandchild, rustix::process::Signal::KILL).unwrap();
        shell.wait();
        assert!(!descendants(own).contains(&child));
    }
}
