//! The MPI processes of this job on this machine: their number, and the number of CPUs for them.

use std::ffi::OsString;

use counters::Environment;
use sys::scheduling::{Thread, affinity};

/// Variables by which launchers pass the number of ranks on this machine: MPICH and Open MPI.
const VARIABLES: [&str; 2] = ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"];

/// The ranks of this job on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranks {
    /// Their number.
    pub(crate) here: u32,
    /// The number of CPUs that they may use together.
    pub(crate) cpus: u32,
}

impl Ranks {
    /// The ranks that the launcher reports. Returns `None` if no launcher started the process.
    pub(crate) fn find() -> Option<Ranks> {
        Some(Ranks { here: ranks_from(|name| std::env::var_os(name))?, cpus: cpus() })
    }

    /// This number of ranks on this machine.
    pub(crate) fn here(here: u32) -> Ranks {
        Ranks { here, cpus: cpus() }
    }

    /// Whether some of them must share a CPU.
    pub(crate) fn are_oversubscribed(self) -> bool {
        self.here > self.cpus
    }
}

/// The number of ranks in the variables of a launcher.
fn ranks_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<u32> {
    VARIABLES.iter().find_map(|name| variable(name)?.to_str()?.parse().ok())
}

/// The number of CPUs that the ranks may use.
///
/// A launcher may bind each rank to its own CPUs. The launcher itself is not bound, so its affinity
/// includes all CPUs that it can assign. `rowlock prun` says how many it has assigned.
fn cpus() -> u32 {
    let assigned = std::env::var(Environment::CPUS).ok().and_then(|cpus| cpus.parse().ok());
    assignable().min(assigned.unwrap_or(u32::MAX)).max(1)
}

fn assignable() -> u32 {
    let own = sys::cpus::usable();
    // A quota applies to all ranks together.
    let is_bound = allowed(Thread::current()).is_some_and(|allowed| allowed <= own);
    let launcher = Thread::from_number(std::os::unix::process::parent_id()).filter(|_| is_bound);
    launcher.and_then(allowed).map_or(own, |allowed| allowed.max(own))
}

/// The number of CPUs that a thread may run on.
fn allowed(thread: Thread) -> Option<u32> {
    affinity(thread).ok().map(|cpus| cpus.len() as u32).filter(|&count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_ranks_is_read_from_the_launcher() {
        for name in VARIABLES {
            assert_eq!(ranks_from(|asked| (asked == name).then(|| "4".into())), Some(4));
            assert_eq!(ranks_from(|asked| (asked == name).then(|| "four".into())), None);
        }
        assert_eq!(ranks_from(|_| None), None);
    }

    #[test]
    fn an_unbound_process_has_its_own_cpus() {
        assert!(cpus() >= 1);
        assert!(allowed(Thread::current()).unwrap() >= 1);
    }

    #[test]
    fn ranks_are_oversubscribed_if_they_outnumber_the_cpus() {
        assert!(Ranks { here: 3, cpus: 2 }.are_oversubscribed());
        assert!(!Ranks { here: 2, cpus: 2 }.are_oversubscribed());
    }
}
