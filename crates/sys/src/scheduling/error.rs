//! Errors of scheduling requests, with the right that a refused request needs.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getpriority_process, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::Policy;

/// The reason why the kernel refused a scheduling request.
#[derive(Debug, thiserror::Error)]
pub enum SchedulingError {
    /// The kernel supports it, but this process may not request it.
    #[error("not permitted; it takes {0}")]
    NotPermitted(Right),
    /// This kernel, or a sandbox in front of it, does not support it.
    #[error("not supported here; it takes {0}")]
    NotSupported(&'static str),
    /// The request is invalid for this thread or kernel.
    #[error("it makes no sense here; it takes {0}")]
    NoSense(&'static str),
    /// Another error, for example that the thread no longer exists.
    #[error("{0}")]
    Failed(#[source] io::Error),
}

impl SchedulingError {
    /// The requirement that would have to be met; `None` if unknown.
    pub fn requirement(&self) -> Option<String> {
        match self {
            SchedulingError::NotPermitted(right) => Some(right.to_string()),
            SchedulingError::NotSupported(needs) | SchedulingError::NoSense(needs) => Some((*needs).to_owned()),
            SchedulingError::Failed(_) => None,
        }
    }

    /// A short description of the error, without the requirement.
    pub fn cause(&self) -> String {
        match self {
            SchedulingError::NotPermitted(_) => "not permitted".to_owned(),
            SchedulingError::NotSupported(_) => "not supported here".to_owned(),
            SchedulingError::NoSense(_) => "it makes no sense here".to_owned(),
            SchedulingError::Failed(why) => why.to_string(),
        }
    }
}

/// A right that a process lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// A better nice value or another policy.
    Nice {
        /// The required value of the limit `RLIMIT_NICE`: 20 minus the nice value.
        limit: u64,
        /// The current value.
        is: u64,
    },
    /// A real-time priority.
    RealTime {
        /// The required value of the limit `RLIMIT_RTPRIO`: the priority.
        limit: u64,
        /// The current value.
        is: u64,
    },
    /// A real-time I/O priority.
    RealTimeIo,
    /// The process has the capability, and is still refused.
    MoreThanCapability,
    /// The same for a real-time priority.
    MoreThanCapabilityForRealTime,
    /// Changing threads of other users.
    Others,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Right::Nice { limit, is } => write!(f, "CAP_SYS_NICE, or RLIMIT_NICE of {limit} (it is {is})"),
            Right::RealTime { limit, is } => write!(f, "CAP_SYS_NICE, or RLIMIT_RTPRIO of {limit} (it is {is})"),
            Right::RealTimeIo => f.write_str("CAP_SYS_NICE or CAP_SYS_ADMIN"),
            Right::MoreThanCapability => {
                f.write_str("CAP_SYS_NICE outside of this user namespace, and no filter of system calls that forbids it")
            }
            Right::MoreThanCapabilityForRealTime => f.write_str(
                "a control group with real-time running time (cpu.rt_runtime_us), or CAP_SYS_NICE outside of this user namespace, \
                 and no filter of system calls that forbids it",
            ),
            Right::Others => f.write_str("CAP_SYS_NICE, since the thread is another user's"),
        }
    }
}

/// The request that was refused.
#[derive(Clone, Copy)]
pub(super) enum Request {
    Nice(i32),
    Policy(Policy),
    Slice,
    Clamp,
    IoPriority,
    Affinity,
}

impl SchedulingError {
    /// Translates the error number of the kernel for this request.
    pub(super) fn new(request: Request, why: Errno) -> SchedulingError {
        match why {
            Errno::PERM | Errno::ACCESS => SchedulingError::NotPermitted(Right::missing(request)),
            Errno::NOSYS | Errno::OPNOTSUPP => SchedulingError::NotSupported(request.support()),
            // A kernel that does not know the flag or the length reports these.
            Errno::TOOBIG => SchedulingError::NotSupported(request.support()),
            Errno::INVAL => match request {
                Request::Clamp => SchedulingError::NotSupported(request.support()),
                Request::Affinity => SchedulingError::NoSense("a CPU that is online and in this process's cpuset"),
                Request::Policy(_) => SchedulingError::NoSense("a policy and a priority that the kernel has"),
                Request::Nice(_) | Request::Slice | Request::IoPriority => SchedulingError::Failed(why.into()),
            },
            other => SchedulingError::Failed(other.into()),
        }
    }
}

impl Request {
    /// The kernel that is needed for this request.
    fn support(self) -> &'static str {
        match self {
            Request::Nice(_) | Request::Policy(_) | Request::Affinity => "a kernel that lets this system call through",
            Request::Slice => "Linux 6.12 with the system call sched_setattr",
            Request::Clamp => "Linux 5.3 built with CONFIG_UCLAMP_TASK",
            Request::IoPriority => "a kernel built with CONFIG_BLOCK that lets ioprio_set through",
        }
    }
}

impl Right {
    fn missing(request: Request) -> Right {
        let may_be_nice = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE));
        let limit = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
        match request {
            Request::Policy(policy) if may_be_nice && policy.is_real_time() => Right::MoreThanCapabilityForRealTime,
            _ if may_be_nice => Right::MoreThanCapability,
            Request::Nice(nice) => {
                let limit_for_it = u64::from(20_i32.saturating_sub(nice).unsigned_abs());
                Right::Nice { limit: limit_for_it, is: limit(Resource::Nice) }
            }
            Request::Policy(Policy::Fifo(priority) | Policy::RoundRobin(priority)) => {
                Right::RealTime { limit: priority.into(), is: limit(Resource::Rtprio) }
            }
            // Leaving `SCHED_IDLE` needs the same right as the current nice value.
            Request::Policy(_) => {
                let nice = getpriority_process(None).unwrap_or(0);
                Right::missing(Request::Nice(nice))
            }
            Request::IoPriority => Right::RealTimeIo,
            Request::Slice | Request::Clamp | Request::Affinity => Right::Others,
        }
    }
}
