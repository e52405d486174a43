//! The MPI processes of this job on this machine: their number, and the number of CPUs for them.

use std::ffi::OsString;

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
/// includes all CPUs that it can assign.
fn cpus() -> u32 {
    let own = sys::cpus::usable();
    // A quota applies to all ranks together.
    let bound = allowed(0).is_some_and(|allowed| allowed <= own);
    // SAFETY: no preconditions.
    let launcher = unsafe { libc::getppid() };
    if bound { allowed(launcher).map_or(own, |allowed| allowed.max(own)) } else { own }
}

/// The number of CPUs that the main thread of a process may run on; 0 is the calling thread.
fn allowed(process: libc::pid_t) -> Option<u32> {
    let mut set = std::mem::MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: there is room for the answer, and zeros are an empty set.
    let set = unsafe {
        let result = libc::sched_getaffinity(process, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        (result == 0).then(|| set.assume_init())?
    };
    // SAFETY: no preconditions; it counts bits.
    u32::try_from(unsafe { libc::CPU_COUNT(&set) }).ok().filter(|&count| count > 0)
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
        assert!(allowed(0).unwrap() >= 1);
    }

    #[test]
    fn ranks_are_oversubscribed_if_they_outnumber_the_cpus() {
        assert!(Ranks { here: 3, cpus: 2 }.are_oversubscribed());
        assert!(!Ranks { here: 2, cpus: 2 }.are_oversubscribed());
    }
}
