//! Why a wish was refused, and what right it takes.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getpriority_process, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::Policy;

/// Why the kernel does not schedule a thread as was wished.
#[derive(Debug, thiserror::Error)]
pub enum SchedulingError {
    /// It could, but this process may not ask for it.
    #[error("not permitted; it takes {0}")]
    NotPermitted(Right),
    /// This kernel, or a sandbox before it, cannot.
    #[error("not supported here; it takes {0}")]
    NotSupported(&'static str),
    /// The wish makes no sense to it.
    #[error("it makes no sense here; it takes {0}")]
    NoSense(&'static str),
    /// Something else went wrong, such as that there is no such thread any more.
    #[error("{0}")]
    Failed(#[source] io::Error),
}

impl SchedulingError {
    /// What has to be there for the wish to be granted; nothing where nobody can tell.
    pub fn requirement(&self) -> Option<String> {
        match self {
            SchedulingError::NotPermitted(right) => Some(right.to_string()),
            SchedulingError::NotSupported(needs) | SchedulingError::NoSense(needs) => Some((*needs).to_owned()),
            SchedulingError::Failed(_) => None,
        }
    }

    /// What happened, in few words, without what is needed.
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
    /// To have this nice value, or policy.
    Nice {
        /// What the limit `RLIMIT_NICE` has to be at least: 20 less the nice value.
        limit: u64,
        /// What it is.
        is: u64,
    },
    /// To have this real-time priority.
    RealTime {
        /// What the limit `RLIMIT_RTPRIO` has to be at least: the priority.
        limit: u64,
        /// What it is.
        is: u64,
    },
    /// To have real-time I/O priority.
    RealTimeIo,
    /// The process has the capability, and is refused all the same.
    MoreThanCapability,
    /// The same for a real-time priority.
    MoreThanCapabilityForRealTime,
    /// To change threads of other users.
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

/// What it is that was refused.
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
    /// What the kernel's number means for this wish.
    pub(super) fn new(wish: Request, why: Errno) -> SchedulingError {
        match why {
            Errno::PERM | Errno::ACCESS => SchedulingError::NotPermitted(Right::missing(wish)),
            Errno::NOSYS | Errno::OPNOTSUPP => SchedulingError::NotSupported(wish.support()),
            // A kernel that does not know the flag or the length says so by these.
            Errno::TOOBIG => SchedulingError::NotSupported(wish.support()),
            Errno::INVAL => match wish {
                Request::Clamp => SchedulingError::NotSupported(wish.support()),
                Request::Affinity => SchedulingError::NoSense("a CPU that is online and in this process's cpuset"),
                Request::Policy(_) => SchedulingError::NoSense("a policy and a priority that the kernel has"),
                Request::Nice(_) | Request::Slice | Request::IoPriority => SchedulingError::Failed(why.into()),
            },
            other => SchedulingError::Failed(other.into()),
        }
    }
}

impl Request {
    /// What a kernel has to be for this.
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
    fn missing(wish: Request) -> Right {
        let may_be_nice = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE));
        let limit = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
        match wish {
            Request::Policy(policy) if may_be_nice && policy.is_real_time() => Right::MoreThanCapabilityForRealTime,
            _ if may_be_nice => Right::MoreThanCapability,
            Request::Nice(nice) => {
                let limit_for_it = u64::from(20_i32.saturating_sub(nice).unsigned_abs());
                Right::Nice { limit: limit_for_it, is: limit(Resource::Nice) }
            }
            Request::Policy(Policy::Fifo(priority) | Policy::RoundRobin(priority)) => {
                Right::RealTime { limit: priority.into(), is: limit(Resource::Rtprio) }
            }
            // Out of `SCHED_IDLE` one comes as to one's own nice value.
            Request::Policy(_) => {
                let nice = getpriority_process(None).unwrap_or(0);
                Right::missing(Request::Nice(nice))
            }
            Request::IoPriority => Right::RealTimeIo,
            Request::Slice | Request::Clamp | Request::Affinity => Right::Others,
        }
    }
}
