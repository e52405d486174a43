//! The CPUs that this process may use, and the CPU that a thread runs on.

use std::marker::PhantomData;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::cgroups::{Hierarchy, Quota};
use crate::scheduling::{self, Thread};

/// Error that occurs when CPUs cannot be listed or a thread cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum AffinityError {
    /// The kernel does not report the allowed CPUs.
    #[error("cannot read which CPUs this thread may use: {0}")]
    Read(#[source] std::io::Error),
    /// The thread cannot be bound to this CPU.
    #[error("cannot bind this thread to CPU {cpu}: {why} (`taskset -pc $$` lists the CPUs that are allowed)")]
    Bind {
        /// The number of the CPU.
        cpu: u32,
        /// The kernel's reason; `EINVAL` if the CPU does not exist or is not allowed.
        #[source]
        why: std::io::Error,
    },
}

/// The number of CPUs that this process may use: those in the affinity of any of its threads, or
/// fewer if a CPU quota of its cgroup or an ancestor limits it. Rounds down, to at least one.
///
/// The affinities of all threads are joined, since the threads of a team may each be bound to a CPU
/// of their own. Only some threads of a process with very many are asked. Reads files below `/proc`
/// and `/sys/fs/cgroup`, so it does not belong on a fast path.
pub fn usable() -> u32 {
    let quotas = Hierarchy::all().into_iter().filter_map(|hierarchy| hierarchy.quota());
    limited(allowed_to_any_thread(), quotas)
}

/// The CPUs that the first process of this PID namespace or the calling thread may run on,
/// ascending: all of the machine or of the container, though this thread may be bound to some.
/// Fails as [`allowed`].
pub fn of_all_processes() -> Result<Vec<u32>, AffinityError> {
    let sets = [
        affinity()?,
        sched_getaffinity(Some(Pid::INIT))
            .or_else(|_| sched_getaffinity(None))
            .map_err(|why| AffinityError::Read(why.into()))?,
    ];
    let is_allowed = |&cpu: &usize| sets.iter().any(|set| set.is_set(cpu));
    Ok((0..CpuSet::MAX_CPU).filter(is_allowed).map(|cpu| cpu as u32).collect())
}

/// The tightest CPU quota of the group of this process and its ancestors, as a number of CPUs.
/// `None` if there is none.
pub fn quota() -> Option<f64> {
    let quotas = Hierarchy::all().into_iter().filter_map(|hierarchy| hierarchy.quota());
    quotas.map(|quota| quota.cpus()).min_by(f64::total_cmp)
}

/// Limits a number of CPUs by quotas.
fn limited(cpus: u32, quotas: impl Iterator<Item = Quota>) -> u32 {
    quotas.map(|quota| quota.cpus() as u32).fold(cpus, u32::min).max(1)
}

/// The number of CPUs that some thread of this process may run on.
fn allowed_to_any_thread() -> u32 {
    /// More threads than a team has on any machine. Each query takes about a microsecond.
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

/// The CPUs that the calling thread may run on, ascending. Fails if the machine has more than 1024.
pub fn allowed() -> Result<Vec<u32>, AffinityError> {
    scheduling::affinity(Thread::current()).map_err(AffinityError::Read)
}

fn affinity() -> Result<CpuSet, AffinityError> {
    sched_getaffinity(None).map_err(|why| AffinityError::Read(why.into()))
}

/// The CPU that the calling thread runs on, which may be out of date. Takes a few nanoseconds.
pub fn current() -> u32 {
    // The C library reads the number from memory that the kernel updates (rseq), if it can. That
    // is faster than a call of the vDSO, which rustix makes.
    // SAFETY: the call has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    // It fails on kernels without the call, which are older than those that Rust supports.
    cpu.try_into().unwrap_or(0)
}

/// Moves the calling thread to another CPU. The scheduler may move it again afterwards. Fails if
/// the thread may not run on that CPU.
pub fn move_to(cpu: u32) -> Result<(), AffinityError> {
    let allowed = affinity()?;
    if cpu as usize >= CpuSet::MAX_CPU || !allowed.is_set(cpu as usize) {
        return Err(AffinityError::Bind { cpu, why: Errno::INVAL.into() });
    }
    pin(cpu).map(drop)
}

/// Binds the calling thread to one CPU until the returned guard is dropped. Fails if the CPU is
/// missing or not allowed.
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

/// Binds the child of `command`, and all that it starts, to these CPUs. Fails if one of them is
/// missing or not allowed. The command fails to start if the list is empty.
pub fn bind_in(command: &mut Command, cpus: &[u32]) -> Result<(), AffinityError> {
    let allowed = affinity()?;
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu as usize >= CpuSet::MAX_CPU || !allowed.is_set(cpu as usize) {
            return Err(AffinityError::Bind { cpu, why: Errno::INVAL.into() });
        }
        set.set(cpu as usize);
    }
    // SAFETY: it makes one system call, which is async-signal-safe, as required between fork and
    // exec.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &set)?)) };
    Ok(())
}

/// Guard of a thread that is bound to one CPU. Restores the previous affinity when dropped.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
    /// The affinity must be restored by the same thread.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It fails only if a cpuset has removed all of these CPUs: the kernel has chosen others.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pinned_thread_stays_on_its_cpu_until_the_guard_is_dropped() {
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
    fn pinning_to_a_missing_cpu_fails_and_changes_nothing() {
        let before = allowed().unwrap();
        for cpu in [1023, 1024, u32::MAX].into_iter().filter(|cpu| !before.contains(cpu)) {
            let why = pin(cpu).unwrap_err();
            assert!(matches!(why, AffinityError::Bind { .. }), "{why}");
            assert!(why.to_string().starts_with(&format!("cannot bind this thread to CPU {cpu}: ")), "{why}");
        }
        assert_eq!(allowed().unwrap(), before);
    }

    #[test]
    fn a_child_is_bound_to_cpus_that_are_allowed() {
        let allowed = allowed().unwrap();
        for cpus in allowed.iter().map(|cpu| vec![*cpu]).chain([allowed.clone()]) {
            let mut command = testing::command("nproc");
            bind_in(&mut command, &cpus).unwrap();
            assert_eq!(testing::run(&mut command).expect_success().stdout.trim(), cpus.len().to_string());
        }
        for cpu in [1023, 1024, u32::MAX].into_iter().filter(|cpu| !allowed.contains(cpu)) {
            let refused = bind_in(&mut testing::command("nproc"), &[cpu]);
            assert!(matches!(refused, Err(AffinityError::Bind { cpu: found, .. }) if found == cpu), "{refused:?}");
        }
        let mut nowhere = testing::command("nproc");
        bind_in(&mut nowhere, &[]).unwrap();
        assert!(nowhere.status().is_err());
    }

    #[test]
    fn no_more_cpus_are_usable_than_allowed() {
        let usable = usable() as usize;
        assert!((1..=allowed().unwrap().len()).contains(&usable), "{usable}");
    }

    #[test]
    fn the_affinities_of_all_threads_are_joined() {
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
    fn the_tightest_quota_limits_the_cpus_to_one_or_more() {
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
