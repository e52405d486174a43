//! The CPUs that this process may use, and on which of them a thread runs.

use std::marker::PhantomData;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cgroups::{Hierarchy, Quota};

/// Why CPUs could not be listed or bound to.
#[derive(Debug, thiserror::Error)]
pub enum AffinityError {
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

/// How many CPUs' worth of running this process may use: those that the affinity of any of its threads allows, or fewer where a
/// CPU quota of its own cgroup or of one above it says so. At least one; a quota counts rounded down.
///
/// The threads are counted together since those of a team may be bound one by one, each to a CPU of its own. Of a process
/// with very many threads only some are asked. Reads files below `/proc` and `/sys/fs/cgroup`: not for the fast path.
pub fn usable() -> u32 {
    let quotas = Hierarchy::all().into_iter().filter_map(|hierarchy| hierarchy.quota());
    limited(allowed_to_any_thread(), quotas)
}

/// How many CPUs' worth of running so many CPUs are with these quotas.
fn limited(cpus: u32, quotas: impl Iterator<Item = Quota>) -> u32 {
    quotas.map(|quota| quota.cpus() as u32).fold(cpus, u32::min).max(1)
}

/// How many CPUs there are that some thread of this process may run on.
fn allowed_to_any_thread() -> u32 {
    /// More than has a team on any machine; to ask each takes about a microsecond.
    const MOST_ASKED: usize = 512;
    let threads = || std::fs::read_dir("/proc/self/task").ok();
    let numbers = threads().into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // A thread may have ended since it was listed.
    let others = numbers.take(MOST_ASKED).filter_map(|number| sched_getaffinity(Some(Pid::from_raw(number)?)).ok());
    let sets: Vec<CpuSet> = others.chain(affinity()).collect();
    let is_allowed = |&cpu: &usize| sets.iter().any(|set| set.is_set(cpu));
    match (0..CpuSet::MAX_CPU).filter(is_allowed).count() {
        // The kernel has more CPUs than fit the mask.
        0 => std::thread::available_parallelism().map_or(1, |cpus| cpus.get().try_into().unwrap_or(u32::MAX)),
        cpus => cpus as u32,
    }
}

/// The CPUs that the calling thread may run on, ascending.
///
/// # Errors
///
/// [`AffinityError::Read`] on machines with more CPUs than fit the mask of 1024.
pub fn allowed() -> Result<Vec<u32>, AffinityError> {
    let set = affinity()?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

fn affinity() -> Result<CpuSet, AffinityError> {
    sched_getaffinity(None).map_err(|why| AffinityError::Read(why.into()))
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
/// [`AffinityError::Bind`] where the thread may not run on that CPU; it stays where it is.
pub fn move_to(cpu: u32) -> Result<(), AffinityError> {
    let allowed = affinity()?;
    if cpu as usize >= CpuSet::MAX_CPU || !allowed.is_set(cpu as usize) {
        return Err(AffinityError::Bind { cpu, why: Errno::INVAL.into() });
    }
    pin(cpu).map(drop)
}

/// Binds the calling thread to one CPU until the returned guard is dropped.
///
/// # Errors
///
/// [`AffinityError::Bind`] where there is no such CPU or the thread may not use it; its affinity is then as before.
pub fn pin(cpu: u32) -> Result<Pinned, AffinityError> {
    let before = affinity()?;
    let bind = |why: Errno| AffinityError::Bind { cpu, why: why.into() };
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pinned_thread_runs_where_it_is_pinned_and_is_freed_by_the_drop() {
        let before = allowed().unwrap();
        for &cpu in &before {
            let pinned = pin(cpu).unwrap();
            assert_eq!(allowed().unwrap(), [cpu]);
            assert_eq!(current(), cpu);
            drop(pinned);
            assert_eq!(allowed().unwrap(), before);
        }
    }

    #[test]
    fn pinning_to_a_cpu_that_is_not_there_fails_and_changes_nothing() {
        let before = allowed().unwrap();
        for cpu in [1023, 1024, u32::MAX].into_iter().filter(|cpu| !before.contains(cpu)) {
            let why = pin(cpu).unwrap_err();
            assert!(matches!(why, AffinityError::Bind { .. }), "{why}");
            assert!(why.to_string().starts_with(&format!("cannot bind this thread to CPU {cpu}: ")), "{why}");
        }
        assert_eq!(allowed().unwrap(), before);
    }

    #[test]
    fn no_more_cpus_are_usable_than_allowed() {
        let usable = usable() as usize;
        assert!((1..=allowed().unwrap().len()).contains(&usable), "{usable}");
    }

    #[test]
    fn threads_that_are_bound_one_by_one_have_the_cpus_of_them_all() {
        let cpus = allowed().unwrap();
        let all_are_bound = std::sync::Barrier::new(cpus.len());
        std::thread::scope(|scope| {
            let bound = |cpu| {
                let _pinned = pin(cpu).unwrap();
                all_are_bound.wait();
                let count = allowed_to_any_thread();
                all_are_bound.wait();
                count
            };
            let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || bound(cpu))).collect();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap() as usize, cpus.len()));
        });
    }

    #[test]
    fn the_tightest_quota_limits_and_leaves_one_at_least() {
        let quota = |percent: u64| {
            let (time, period) = (Duration::from_millis(percent), Duration::from_millis(100));
            Quota { time, period, file: "cpu.max".into() }
        };
        assert_eq!(limited(4, [].into_iter()), 4);
        assert_eq!(limited(4, [quota(350), quota(250), quota(900)].into_iter()), 2);
        assert_eq!(limited(4, [quota(900)].into_iter()), 4);
        assert_eq!(limited(4, [quota(50)].into_iter()), 1);
    }
}
