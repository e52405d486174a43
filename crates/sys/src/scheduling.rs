//! The scheduling of a thread: nice value, policy, timeslice, utilization clamp, I/O priority and
//! CPUs. Each setter returns the effective value, which may differ from the requested one.
//!
//! Every request concerns one thread and leaves its other attributes unchanged. The kernel refuses
//! with an error number; the errors here name the missing right. For the values that a process may
//! request before it has a thread to try them with, see [`crate::priorities`].

mod error;

use std::fmt;
use std::io;
use std::mem::size_of;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity, sched_yield};

use self::error::Request;
pub use self::error::SchedulingError;
use crate::errno;

/// The worst nice value.
pub const WORST_NICE: i32 = 19;

/// A thread, by its kernel thread ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread(Pid);

impl Thread {
    /// The calling thread.
    pub fn current() -> Thread {
        Thread(gettid())
    }

    /// The thread with this ID in `/proc/PID/task`. Returns `None` if no thread can have it.
    pub fn from_number(number: u32) -> Option<Thread> {
        Pid::from_raw(number.try_into().ok()?).map(Thread)
    }

    /// Its ID.
    pub fn number(self) -> u32 {
        self.0.as_raw_pid().unsigned_abs()
    }
}

/// The scheduling policy of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// `SCHED_OTHER`: a share of the CPU by nice value. The default.
    Other,
    /// `SCHED_BATCH`: the same, but the thread does not preempt others when it wakes up.
    Batch,
    /// `SCHED_IDLE`: hardly any share while others want the CPU, and preempted by them at once.
    Idle,
    /// `SCHED_FIFO`: runs before all of these and lower priorities without limit; 1 is the lowest.
    Fifo(u8),
    /// `SCHED_RR`: the same, in turns with threads of the same priority.
    RoundRobin(u8),
    /// A policy unknown to this crate, by its kernel number.
    Foreign(u32),
}

impl Policy {
    /// The priorities of real-time threads.
    pub const PRIORITIES: std::ops::RangeInclusive<u8> = 1..=99;

    /// Whether nice value and timeslice apply under it.
    pub const fn is_fair(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch)
    }

    /// Whether it has precedence over all ordinary threads.
    pub const fn is_real_time(self) -> bool {
        matches!(self, Policy::Fifo(_) | Policy::RoundRobin(_))
    }

    /// The kernel number, and the priority.
    fn to_raw(self) -> (i32, i32) {
        match self {
            Policy::Other => (libc::SCHED_OTHER, 0),
            Policy::Batch => (libc::SCHED_BATCH, 0),
            Policy::Idle => (libc::SCHED_IDLE, 0),
            Policy::Fifo(priority) => (libc::SCHED_FIFO, priority.into()),
            Policy::RoundRobin(priority) => (libc::SCHED_RR, priority.into()),
            Policy::Foreign(number) => (number.try_into().unwrap_or(i32::MAX), 0),
        }
    }

    fn from_raw(number: u32, priority: u32) -> Policy {
        let priority = priority.try_into().unwrap_or(u8::MAX);
        match i32::try_from(number) {
            Ok(libc::SCHED_OTHER) => Policy::Other,
            Ok(libc::SCHED_BATCH) => Policy::Batch,
            Ok(libc::SCHED_IDLE) => Policy::Idle,
            Ok(libc::SCHED_FIFO) => Policy::Fifo(priority),
            Ok(libc::SCHED_RR) => Policy::RoundRobin(priority),
            _ => Policy::Foreign(number),
        }
    }
}

/// `other`, `batch`, `idle`, `fifo/1`, `rr/1`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Other => f.pad("other"),
            Policy::Batch => f.pad("batch"),
            Policy::Idle => f.pad("idle"),
            Policy::Fifo(priority) => f.pad(&format!("fifo/{priority}")),
            Policy::RoundRobin(priority) => f.pad(&format!("rr/{priority}")),
            Policy::Foreign(number) => f.pad(&format!("policy {number}")),
        }
    }
}

/// The order in which a device serves the requests of threads, if its I/O scheduler
/// (`/sys/block/*/queue/scheduler`) supports it: `bfq` and `mq-deadline` do, `none` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoPriority {
    /// Derived from the nice value of the thread.
    Unset,
    /// Before all others, even if they starve; 0 is the highest, 7 the lowest.
    RealTime(u8),
    /// A share; 0 is the highest, 7 the lowest, 4 is the default.
    BestEffort(u8),
    /// Only while no other thread uses the device.
    Idle,
}

impl IoPriority {
    /// All levels.
    pub const LEVELS: std::ops::RangeInclusive<u8> = 0..=7;

    const CLASS_SHIFT: u32 = 13;

    fn to_raw(self) -> libc::c_int {
        let (class, level) = match self {
            IoPriority::Unset => (0, 0),
            IoPriority::RealTime(level) => (1, level),
            IoPriority::BestEffort(level) => (2, level),
            IoPriority::Idle => (3, 0),
        };
        class << IoPriority::CLASS_SHIFT | libc::c_int::from(level)
    }

    fn from_raw(raw: libc::c_long) -> IoPriority {
        let level = (raw & 7) as u8;
        match raw >> IoPriority::CLASS_SHIFT & 7 {
            1 => IoPriority::RealTime(level),
            2 => IoPriority::BestEffort(level),
            3 => IoPriority::Idle,
            _ => IoPriority::Unset,
        }
    }
}

/// `unset`, `real-time/0`, `best-effort/4`, `idle`.
impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoPriority::Unset => f.pad("unset"),
            IoPriority::RealTime(level) => f.pad(&format!("real-time/{level}")),
            IoPriority::BestEffort(level) => f.pad(&format!("best-effort/{level}")),
            IoPriority::Idle => f.pad("idle"),
        }
    }
}

/// Bounds of the estimated CPU utilization of a thread, for choosing CPUs and frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clamp {
    /// The lower bound, out of [`Clamp::ALL`].
    pub min: u32,
    /// The upper bound.
    pub max: u32,
}

impl Clamp {
    /// The utilization of a whole CPU of the largest kind at its highest frequency.
    pub const ALL: u32 = 1024;
}

/// `0-512`.
impl fmt::Display for Clamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.min, self.max))
    }
}

/// The effective scheduling attributes of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Its policy.
    pub policy: Policy,
    /// Its nice value, which applies if [`Policy::is_fair`].
    pub nice: i32,
    /// Its timeslice; `None` if the kernel does not report it, as before Linux 6.12.
    pub slice: Option<Duration>,
    /// Its clamp; `None` if the kernel has none.
    pub clamp: Option<Clamp>,
}

/// The nice value of a thread. Fails if it does not exist, or if a filter forbids the query.
pub fn nice(thread: Thread) -> io::Result<i32> {
    Ok(getpriority_process(Some(thread.0))?)
}

/// Sets the nice value of a thread, clamped to -20 (best) to 19. Returns the effective value. Fails
/// if the value is better than this process may have.
pub fn set_nice(thread: Thread, nice: i32) -> Result<i32, SchedulingError> {
    let refused = |why| SchedulingError::new(Request::Nice(nice), why);
    setpriority_process(Some(thread.0), nice).map_err(refused)?;
    getpriority_process(Some(thread.0)).map_err(refused)
}

/// Sets the policy of a thread, and keeps its nice value, and whether its children inherit both.
/// Returns the effective policy. Fails if this process may not have the policy, or not return to
/// it.
pub fn set_policy(thread: Thread, policy: Policy) -> Result<Policy, SchedulingError> {
    let refused = |why| SchedulingError::new(Request::Policy(policy), why);
    set_scheduler(thread, policy).map_err(refused)?;
    Ok(RawAttributes::of(thread).map_or(policy, |now| now.policy()))
}

/// Sets the timeslice of a thread, and keeps its policy and nice value. Returns the effective
/// timeslice, which the kernel clamps to 0.1 ms to 100 ms, or `None` if the kernel accepts the
/// request but ignores it, as before Linux 6.12. Fails if the policy has no timeslices.
pub fn set_slice(thread: Thread, slice: Duration) -> Result<Option<Duration>, SchedulingError> {
    let refused = |why| SchedulingError::new(Request::Slice, why);
    let now = RawAttributes::of(thread).map_err(refused)?;
    if !now.policy().is_fair() {
        let needed = "the policy `other` or `batch`, since others have no timeslices of their own";
        return Err(SchedulingError::no_sense(needed));
    }
    now.with_slice(slice).apply_to(thread).map_err(refused)?;
    Ok(RawAttributes::of(thread).map_err(refused)?.slice())
}

/// Clamps the utilization of a thread. Returns the effective clamp. Fails if the kernel was built
/// without clamps, or if the bounds are invalid.
pub fn set_clamp(thread: Thread, clamp: Clamp) -> Result<Clamp, SchedulingError> {
    let refused = |why| SchedulingError::new(Request::Clamp, why);
    if clamp.min > clamp.max || clamp.max > Clamp::ALL {
        return Err(SchedulingError::no_sense("bounds between 0 and 1024, of which the first is no larger"));
    }
    let flags = libc::SCHED_FLAG_KEEP_ALL | libc::SCHED_FLAG_UTIL_CLAMP;
    let now = RawAttributes::of(thread).map_err(refused)?;
    let request = RawAttributes { flags: flags as u64, util_min: clamp.min, util_max: clamp.max, ..now };
    request.apply_to(thread).map_err(refused)?;
    Ok(RawAttributes::of(thread).map_err(refused)?.clamp().unwrap_or(clamp))
}

/// Sets the I/O priority of a thread. Returns the effective one. Fails if it is not permitted.
pub fn set_io_priority(thread: Thread, priority: IoPriority) -> Result<IoPriority, SchedulingError> {
    let number = thread.0.as_raw_pid();
    // SAFETY: the call takes three numbers and accesses no memory.
    errno::check(unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_THREAD, number, priority.to_raw()) })
        .map_err(|why| SchedulingError::new(Request::IoPriority, why))?;
    Ok(io_priority(thread)?)
}

/// Restricts a thread to these CPUs. Returns the effective ones in ascending order: those that are
/// online and in the cpuset of this process. Fails if there are none.
pub fn set_affinity(thread: Thread, cpus: &[u32]) -> Result<Vec<u32>, SchedulingError> {
    let refused = |why| SchedulingError::new(Request::Affinity, why);
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| (cpu as usize) < CpuSet::MAX_CPU) {
        set.set(cpu as usize);
    }
    sched_setaffinity(Some(thread.0), &set).map_err(refused)?;
    Ok(affinity(thread)?)
}

/// The CPUs that a thread may run on, ascending. Fails if the machine has more than 1024.
pub fn affinity(thread: Thread) -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(Some(thread.0))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// The effective scheduling attributes of a thread. Fails if a sandbox does not support this.
pub fn attributes(thread: Thread) -> io::Result<Attributes> {
    let raw = RawAttributes::of(thread)?;
    Ok(Attributes { policy: raw.policy(), nice: raw.nice, slice: raw.slice(), clamp: raw.clamp() })
}

/// The time since its start that a thread of this process was ready but had no CPU. Reads a file
/// below `/proc`. Returns `None` if the thread does not exist, or if the kernel was built without
/// it (`CONFIG_SCHED_INFO`).
pub fn run_delay(thread: Thread) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", thread.number())).ok()?;
    parse_run_delay(&text)
}

/// The second field of a file `schedstat`, in nanoseconds.
pub fn parse_run_delay(text: &str) -> Option<Duration> {
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Whether the kernel gives each session an equal share of the CPUs (autogroup), unless the control
/// group of its programs has a share of its own. Returns `None` if the kernel was built without it.
pub fn is_grouped_by_session() -> Option<bool> {
    let text = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    text.trim().parse().ok().map(|enabled: u32| enabled > 0)
}

/// Yields the CPU to other threads once.
pub fn yield_now() {
    sched_yield();
}

/// The I/O priority of a thread. Fails if it does not exist, or if the kernel has no block devices.
pub fn io_priority(thread: Thread) -> io::Result<IoPriority> {
    let number = thread.0.as_raw_pid();
    // SAFETY: the call takes two numbers and accesses no memory.
    let raw = errno::check(unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_THREAD, number) })?;
    Ok(IoPriority::from_raw(raw))
}

/// `IOPRIO_WHO_PROCESS`, which means a thread.
const WHO_THREAD: libc::c_int = 1;

/// Sets policy and priority only: the kernel keeps the nice value and the timeslice.
pub(crate) fn set_scheduler(thread: Thread, policy: Policy) -> Result<(), Errno> {
    let (number, sched_priority) = policy.to_raw();
    let priority = libc::sched_param { sched_priority };
    let resets = RawAttributes::of(thread).is_ok_and(|now| now.flags & libc::SCHED_FLAG_RESET_ON_FORK as u64 != 0);
    let number = if resets { number | libc::SCHED_RESET_ON_FORK } else { number };
    // SAFETY: the kernel reads a `sched_param`, which exists, and nothing else. The system call is
    // made directly, since not every C library passes it on.
    errno::check(unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, thread.0.as_raw_pid(), number, &raw const priority)
    })
    .map(drop)
}

/// The `struct sched_attr` of the kernel in its second version, which has clamps. Kernels that know
/// only the first version fill in that part, and accept the second if the rest is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

impl RawAttributes {
    const SIZE: u32 = size_of::<RawAttributes>() as u32;

    /// The size of the first version.
    const WITHOUT_CLAMPS: u32 = 48;

    /// The attributes of an ordinary thread.
    pub(crate) fn ordinary(nice: i32) -> RawAttributes {
        RawAttributes { nice, ..RawAttributes::default() }
    }

    pub(crate) fn of(thread: Thread) -> Result<RawAttributes, Errno> {
        let mut now = RawAttributes::default();
        let number = thread.0.as_raw_pid();
        // SAFETY: the kernel writes at most as many bytes as given, for which there is room.
        errno::check(unsafe { libc::syscall(libc::SYS_sched_getattr, number, &raw mut now, RawAttributes::SIZE, 0) })?;
        Ok(now)
    }

    pub(crate) fn apply_to(self, thread: Thread) -> Result<(), Errno> {
        let clamps = self.flags & libc::SCHED_FLAG_UTIL_CLAMP as u64 != 0;
        let (util_min, util_max) = if clamps { (self.util_min, self.util_max) } else { (0, 0) };
        let size = if clamps { RawAttributes::SIZE } else { RawAttributes::WITHOUT_CLAMPS };
        let mut request = RawAttributes { size, util_min, util_max, ..self };
        let number = thread.0.as_raw_pid();
        // SAFETY: the kernel reads as many bytes as the first field says, and may write that field.
        errno::check(unsafe { libc::syscall(libc::SYS_sched_setattr, number, &raw mut request, 0) }).map(drop)
    }

    fn policy(&self) -> Policy {
        Policy::from_raw(self.policy, self.priority)
    }

    pub(crate) fn slice(&self) -> Option<Duration> {
        (self.policy().is_fair() && self.runtime > 0).then(|| Duration::from_nanos(self.runtime))
    }

    /// A kernel without clamps reports a maximum of zero, which never occurs otherwise.
    fn clamp(&self) -> Option<Clamp> {
        (self.util_max > 0).then_some(Clamp { min: self.util_min, max: self.util_max })
    }

    /// The same attributes with another timeslice.
    pub(crate) fn with_slice(self, slice: Duration) -> RawAttributes {
        let flags = self.flags & libc::SCHED_FLAG_RESET_ON_FORK as u64;
        RawAttributes { flags, runtime: slice.as_nanos().try_into().unwrap_or(u64::MAX), ..self }
    }
}

#[cfg(test)]
mod tests;
