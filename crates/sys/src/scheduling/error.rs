//! Errors of scheduling requests, with the right that a refused request needs.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getpriority_process, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::Policy;

/// The reason why the kernel refused a scheduling request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}{}", requirement.as_ref().map_or(String::new(), |requirement| format!("; it takes {requirement}")))]
pub struct SchedulingError {
    /// A short description of the error, without the requirement.
    pub cause: String,
    /// The right, kernel or value that would be needed; `None` if unknown.
    pub requirement: Option<String>,
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
        match (why, request) {
            (Errno::PERM | Errno::ACCESS, _) => {
                SchedulingError { cause: "not permitted".to_owned(), requirement: Some(missing_right(request)) }
            }
            // A kernel that does not know the flag or the length reports the last two.
            (Errno::NOSYS | Errno::OPNOTSUPP | Errno::TOOBIG, _) | (Errno::INVAL, Request::Clamp) => SchedulingError {
                cause: "not supported here".to_owned(),
                requirement: Some(request.support().to_owned()),
            },
            (Errno::INVAL, Request::Affinity) => {
                SchedulingError::no_sense("a CPU that is online and in this process's cpuset")
            }
            (Errno::INVAL, Request::Policy(_)) => {
                SchedulingError::no_sense("a policy and a priority that the kernel has")
            }
            (other, _) => io::Error::from(other).into(),
        }
    }

    /// The request is invalid for this thread or kernel.
    pub(super) fn no_sense(requirement: &str) -> SchedulingError {
        let cause = "it makes no sense here".to_owned();
        SchedulingError { cause, requirement: Some(requirement.to_owned()) }
    }
}

impl From<io::Error> for SchedulingError {
    /// An error without a known requirement, for example that the thread no longer exists.
    fn from(why: io::Error) -> SchedulingError {
        SchedulingError { cause: why.to_string(), requirement: None }
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

/// The right that this process lacks for a request.
fn missing_right(request: Request) -> String {
    let may_be_nice = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE));
    let limit = |resource| getrlimit(resource).current.unwrap_or(u64::MAX);
    match request {
        Request::Policy(policy) if may_be_nice && policy.is_real_time() => {
            "a control group with real-time running time (cpu.rt_runtime_us), or CAP_SYS_NICE outside of this user namespace, \
             and no filter of system calls that forbids it"
                .to_owned()
        }
        _ if may_be_nice => {
            "CAP_SYS_NICE outside of this user namespace, and no filter of system calls that forbids it".to_owned()
        }
        Request::Nice(nice) => {
            let (needed, is) = (20_i32.saturating_sub(nice).unsigned_abs(), limit(Resource::Nice));
            format!("CAP_SYS_NICE, or RLIMIT_NICE of {needed} (it is {is})")
        }
        Request::Policy(Policy::Fifo(priority) | Policy::RoundRobin(priority)) => {
            format!("CAP_SYS_NICE, or RLIMIT_RTPRIO of {priority} (it is {})", limit(Resource::Rtprio))
        }
        // Leaving `SCHED_IDLE` needs the same right as the current nice value.
        Request::Policy(_) => missing_right(Request::Nice(getpriority_process(None).unwrap_or(0))),
        Request::IoPriority => "CAP_SYS_NICE or CAP_SYS_ADMIN".to_owned(),
        Request::Slice | Request::Clamp | Request::Affinity => {
            "CAP_SYS_NICE, since the thread is another user's".to_owned()
        }
    }
}
