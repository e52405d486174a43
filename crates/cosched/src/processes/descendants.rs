//! The descendants of processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::Pid;
use sys::identity::{Identity, Stat};

/// The most processes that are found.
const MOST: usize = 65_536;

/// All live descendants of these processes, without the processes themselves; parents come before
/// their children.
///
/// A process that is created, or adopted by a keeper, during the call may be missing. The next call
/// finds it. At most 65,536 are found.
pub fn descendants(keepers: &[Pid]) -> Vec<Identity> {
    /// Whether this kernel lists the children of a thread (`CONFIG_PROC_CHILDREN`).
    static HAS_LISTS: OnceLock<bool> = OnceLock::new();
    if *HAS_LISTS.get_or_init(|| Path::new("/proc/thread-self/children").exists()) {
        search(keepers, children)
    } else {
        let families = families();
        search(keepers, |parent| families.get(&parent).cloned().unwrap_or_default())
    }
}

/// A process and its [`descendants`]. None if it has ended.
pub(crate) fn family(process: Identity) -> Vec<Identity> {
    let id = i32::try_from(process.pid).ok().and_then(Pid::from_raw).filter(|_| process.is_alive());
    id.map_or_else(Vec::new, |id| [vec![process], descendants(&[id])].concat())
}

/// Searches by the children of each process.
fn search(keepers: &[Pid], children: impl Fn(u32) -> Vec<u32>) -> Vec<Identity> {
    let keepers = keepers.iter().map(|keeper| keeper.as_raw_nonzero().get().unsigned_abs());
    let mut next: Vec<u32> = keepers.collect();
    let mut family: BTreeSet<u32> = next.iter().copied().collect();
    let mut found = Vec::new();
    // A generation after the other.
    while !next.is_empty() {
        for child in std::mem::take(&mut next).into_iter().flat_map(&children) {
            if found.len() == MOST {
                return found;
            }
            let Some(stat) = Stat::of(child) else { continue };
            // An id may belong to a stranger by now. If its parent has ended, its keeper is its
            // parent.
            if !stat.has_ended() && family.contains(&stat.parent) && family.insert(child) {
                found.push(Identity { pid: child, started: stat.started });
                next.push(child);
            }
        }
    }
    found
}

/// The children of all threads of a process.
fn children(parent: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

/// The children of all processes, by their parents.
fn families() -> BTreeMap<u32, Vec<u32>> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut families = BTreeMap::<u32, Vec<u32>>::new();
    for stat in ids.filter_map(Stat::of) {
        families.entry(stat.parent).or_default().push(stat.pid);
    }
    families
}

#[cfg(test)]
mod tests {
    use sys::containment::{Contained, Manner};

    use super::*;
    use crate::processes::tests::until;

    fn by_scan(keepers: &[Pid]) -> Vec<Identity> {
        let families = families();
        search(keepers, |parent| families.get(&parent).cloned().unwrap_or_default())
    }

    fn names(found: &[Identity]) -> Vec<String> {
        let name = |identity: &Identity| Some(String::from_utf8_lossy(Stat::of(identity.pid)?.name()).into_owned());
        let mut names: Vec<String> = found.iter().filter_map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn double_forks_and_other_sessions_are_found_with_parents_first() {
        let script = "(setsid sleep 1000 &); (sleep 1000 &); sh -c 'sleep 1000; :'; :";
        let mut command = testing::command("sh");
        let mut program = Contained::start(command.args(["-c", script]), Manner::Background).unwrap();
        let keepers = [program.id()];
        until(|| names(&descendants(&keepers)) == ["sh", "sh", "sleep", "sleep", "sleep"]);
        let found = descendants(&keepers);
        let sort = |mut found: Vec<Identity>| {
            found.sort_by_key(|identity| identity.pid);
            found
        };
        for found in [found.clone(), by_scan(&keepers)] {
            for (at, identity) in found.iter().enumerate() {
                let parent = Stat::of(identity.pid).unwrap().parent;
                let is_keeper = i32::try_from(parent) == Ok(keepers[0].as_raw_nonzero().get());
                assert!(identity.is_alive());
                assert!(is_keeper || found[..at].iter().any(|earlier| earlier.pid == parent));
            }
        }
        assert_eq!(sort(by_scan(&keepers)), sort(found.clone()));
        // Listed twice, it is found once.
        let nested = [keepers[0], Pid::from_raw(found[0].pid as i32).unwrap()];
        assert!(descendants(&nested).len() < found.len());
        program.end();
        program.process().wait().unwrap();
        assert_eq!(descendants(&keepers), []);
    }

    #[test]
    fn the_child_of_any_thread_is_found_until_it_has_ended() {
        testing::isolated(|| {
            let own = [rustix::process::getpid()];
            let look = move || {
                let mut sleep = testing::Child::start(testing::command("sleep").arg("1000"));
                assert_eq!(names(&descendants(&own)), ["sleep"]);
                sleep.process().kill().unwrap();
                assert!(sleep.wait_until_ended());
                // Not reaped yet.
                assert_eq!((descendants(&own), by_scan(&own)), (vec![], vec![]));
            };
            std::thread::spawn(look).join().unwrap();
        });
    }

    #[test]
    fn an_id_that_belongs_to_a_stranger_by_now_is_left_out() {
        let stranger = std::process::id();
        let keeper = Pid::from_raw(i32::MAX).unwrap();
        assert_eq!(search(&[keeper], |_| vec![stranger, 0, u32::MAX]), []);
        assert_eq!(descendants(&[keeper]), []);
    }
}
