//! The processes of this job on this machine: how many there are, and for how many CPUs.

use std::ffi::OsString;

/// By what variables launchers say how many ranks there are on this machine: those of MPICH and of Open MPI.
const VARIABLES: [&str; 2] = ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"];

/// The ranks of this job on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranks {
    /// How many there are.
    pub(crate) here: u32,
    /// How many CPUs they may use, all together.
    pub(crate) cpus: u32,
}

impl Ranks {
    /// As the launcher says. Nothing where the process was started by none.
    pub(crate) fn find() -> Option<Ranks> {
        Some(Ranks { here: told(|name| std::env::var_os(name))?, cpus: cpus() })
    }

    /// So many, on this machine.
    pub(crate) fn here(here: u32) -> Ranks {
        Ranks { here, cpus: cpus() }
    }

    /// Whether some of them have to share a CPU.
    pub(crate) fn are_oversubscribed(self) -> bool {
        self.here > self.cpus
    }
}

fn told(variable: impl Fn(&str) -> Option<OsString>) -> Option<u32> {
    VARIABLES.iter().find_map(|name| variable(name)?.to_str()?.parse().ok())
}

/// How many CPUs the ranks may use.
///
/// A launcher may bind each rank to CPUs of its own. It is not bound itself: what it may use, it can give.
fn cpus() -> u32 {
    let own = sys::cpus::usable();
    // A quota is all the ranks' together.
    let bound = allowed(0).is_some_and(|allowed| allowed <= own);
    // SAFETY: no preconditions.
    let launcher = unsafe { libc::getppid() };
    if bound { allowed(launcher).map_or(own, |allowed| allowed.max(own)) } else { own }
}

/// How many CPUs the main thread of a process may run on; 0 is the calling thread.
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
    fn launchers_say_how_many_ranks_there_are() {
        for name in VARIABLES {
            assert_eq!(told(|asked| (asked == name).then(|| "4".into())), Some(4));
            assert_eq!(told(|asked| (asked == name).then(|| "four".into())), None);
        }
        assert_eq!(told(|_| None), None);
    }

    #[test]
    fn who_is_not_bound_has_what_the_process_has() {
        assert!(cpus() >= 1);
        assert!(allowed(0).unwrap() >= 1);
    }

    #[test]
    fn ranks_are_crowded_where_there_are_more_of_them_than_cpus() {
        assert!(Ranks { here: 3, cpus: 2 }.are_oversubscribed());
        assert!(!Ranks { here: 2, cpus: 2 }.are_oversubscribed());
    }
}
