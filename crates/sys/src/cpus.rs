//! The CPUs that this process may use, and on which of them a thread runs.

use std::marker::PhantomData;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Why CPUs could not be listed or bound to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not tell which CPUs are allowed.
    #[error("cannot read which CPUs this thread may use: {0}")]
    Read(#[source] std::io::Error),
    /// The kernel does not bind the thread to this CPU.
    #[error("cannot bind this thread to CPU {cpu}: {why} (`taskset -pc $$` lists the CPUs that are allowed)")]
    Bind {
        /// The number of the CPU.
        cpu: u32,
        /// The kernel's reason; `EINVAL` where there is no such CPU or it is not allowed.
        #[source]
        why: std::io::Error,
    },
}

/// How many CPUs' worth of running this process may use: those that its affinity allows, or fewer where a CPU quota of
/// its own cgroup or of one above it says so. At least one; a quota counts rounded down.
///
/// Reads files below `/sys/fs/cgroup`: not for the fast path.
pub fn usable() -> u32 {
    // The standard library does all of it, for both versions of cgroups.
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get().try_into().unwrap_or(u32::MAX))
}

/// The CPUs that the calling thread may run on, ascending.
///
/// # Errors
///
/// [`Error::Read`] on machines with more CPUs than fit the mask of 1024.
pub fn allowed() -> Result<Vec<u32>, Error> {
    let set = affinity()?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

fn affinity() -> Result<CpuSet, Error> {
    sched_getaffinity(None).map_err(|why| Error::Read(why.into()))
}

/// The CPU that the calling thread runs on; it may be another by the time of the return. Costs a few nanoseconds.
pub fn current() -> u32 {
    // The C library reads the number from memory that the kernel keeps up to date (rseq, or the vDSO), where rustix makes
    // a system call of a hundred nanoseconds.
    // SAFETY: the call has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    // It fails on kernels that lack the call, which are older than all that Rust runs on.
    cpu.try_into().unwrap_or(0)
}

/// Moves the calling thread to another CPU, and leaves it to the scheduler to move it on from there.
///
/// # Errors
///
/// [`Error::Bind`] where the thread may not run on that CPU; it stays where it is.
pub fn move_to(cpu: u32) -> Result<(), Error> {
    let allowed = affinity()?;
    if cpu as usize >= CpuSet::MAX_CPU || !allowed.is_set(cpu as usize) {
        return Err(Error::Bind { cpu, why: Errno::INVAL.into() });
    }
    pin(cpu).map(drop)
}

/// Binds the calling thread to one CPU until the returned guard is dropped.
///
/// # Errors
///
/// [`Error::Bind`] where there is no such CPU or the thread may not use it; its affinity is then as before.
pub fn pin(cpu: u32) -> Result<Pinned, Error> {
    let before = affinity()?;
    let bind = |why: Errno| Error::Bind { cpu, why: why.into() };
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(bind(Errno::INVAL));
    }
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(bind)?;
    Ok(Pinned { before, of_this_thread: PhantomData })
}

/// The calling thread is bound to one CPU; dropping this gives it back the affinity that it had before.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
    /// An affinity is restored by the thread that it belongs to.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It fails only where a cpuset has meanwhile taken away all of these CPUs; the kernel has then chosen others.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_where_it_is_pinned_and_is_freed_by_the_drop() {
        let before = allowed().unwrap();
        for &cpu in &before {
            let pinned = pin(cpu).unwrap();
            assert_eq!(allowed().unwrap(), [cpu]);
            assert_eq!(current(), cpu);
            assert_eq!(usable(), 1);
            drop(pinned);
            assert_eq!(allowed().unwrap(), before);
        }
    }

    #[test]
    fn pinning_to_a_cpu_that_is_not_there_fails_and_changes_nothing() {
        let before = allowed().unwrap();
        for cpu in [1023, 1024, u32::MAX].into_iter().filter(|cpu| !before.contains(cpu)) {
            let why = pin(cpu).unwrap_err();
            assert!(matches!(why, Error::Bind { .. }), "{why}");
            assert!(why.to_string().starts_with(&format!("cannot bind this thread to CPU {cpu}: ")), "{why}");
        }
        assert_eq!(allowed().unwrap(), before);
    }

    #[test]
    fn no_more_cpus_are_usable_than_allowed() {
        let usable = usable() as usize;
        assert!((1..=allowed().unwrap().len()).contains(&usable), "{usable}");
    }
}
