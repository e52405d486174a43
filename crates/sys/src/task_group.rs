//! The task group of a process: the threads among which the kernel divides CPU time by priority.
//!
//! A nice value, `SCHED_IDLE` or the weight of a control group says nothing to threads of other
//! task groups. A control group with a CPU share of its own is one. Outside of these, each session
//! is one (autogroup), unless that is switched off. A process of which no ancestor has called
//! `setsid`, as it may be in a virtual machine, is in the outermost one.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use crate::cgroups::Hierarchy;
use crate::scheduling::is_grouped_by_session;

/// A task group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskGroup {
    /// The outermost one.
    Root,
    /// A control group, by its folder.
    Group(PathBuf),
    /// A session, by the kernel's name for its group.
    Session(String),
}

impl TaskGroup {
    /// The task group of a process. Returns `None` if the process is gone or hidden.
    pub fn of(pid: u32) -> Option<TaskGroup> {
        let own = fs::read(format!("/proc/{pid}/cgroup")).ok()?;
        let hierarchies = Hierarchy::parse(&fs::read("/proc/self/mountinfo").ok()?, &own);
        match Hierarchy::of_cpus(&hierarchies).and_then(Hierarchy::cpu_share) {
            Some(folder) => Some(TaskGroup::Group(folder.to_owned())),
            None if is_grouped_by_session() == Some(true) => {
                Some(of_session(&fs::read_to_string(format!("/proc/{pid}/autogroup")).ok()?))
            }
            None => Some(TaskGroup::Root),
        }
    }
}

/// For people, as a part of a sentence.
impl fmt::Display for TaskGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskGroup::Root => f.write_str("the outermost task group"),
            TaskGroup::Group(folder) => write!(f, "the control group {}", folder.display()),
            TaskGroup::Session(name) => write!(f, "the session with the task group {name}"),
        }
    }
}

/// The task group that a file such as `/autogroup-94 nice 0` names. The file of a process of the
/// outermost one is empty.
fn of_session(text: &str) -> TaskGroup {
    match text.split_ascii_whitespace().next() {
        Some(name) => TaskGroup::Session(name.to_owned()),
        None => TaskGroup::Root,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_in_the_task_group_of_its_parent_and_a_new_session_in_another_one() {
        let own = TaskGroup::of(std::process::id()).unwrap();
        let child = testing::Child::start(testing::command("sleep").arg("1000"));
        assert_eq!(TaskGroup::of(child.id()), Some(own.clone()));
        let script = "exec setsid sh -c 'echo ready; read word'";
        let mut apart = testing::Child::start_piped(testing::command("sh").args(["-c", script]));
        apart.read_line();
        let apart = TaskGroup::of(apart.id()).unwrap();
        let has_sessions = is_grouped_by_session() == Some(true) && !crate::cgroups::has_a_cpu_share();
        assert_eq!(matches!(apart, TaskGroup::Session(_)), has_sessions);
        assert_eq!(apart != own, has_sessions);
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_task_group() {
        assert_eq!(TaskGroup::of(0), None);
        assert_eq!(TaskGroup::of(u32::MAX), None);
    }

    #[test]
    fn a_session_is_known_by_the_name_of_its_group() {
        assert_eq!(of_session("/autogroup-94 nice 0\n"), TaskGroup::Session("/autogroup-94".to_owned()));
    }

    #[test]
    fn a_process_outside_of_all_sessions_is_in_the_outermost_task_group() {
        assert_eq!(of_session(""), TaskGroup::Root);
    }
}
