//! The classes of system calls, and what can go wrong with each.

use sys::seccomp::Call;

/// A class of system calls.
#[derive(Debug)]
pub struct Class {
    /// Its name, for messages.
    pub name: &'static str,
    pub(super) calls: &'static [i64],
    /// The failures.
    pub faults: &'static [Fault],
}

/// The way in which a system call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this error number.
    Error(i32),
    /// A write that writes only half.
    Short,
    /// It is carried out later.
    Late,
    /// Its process gets this signal before it is carried out.
    Signal(i32),
}

use Fault::{Error, Late, Short, Signal};

impl Fault {
    /// Whether the kernel may always do this, so that a program must succeed all the same.
    pub fn is_harmless(self) -> bool {
        matches!(self, Error(libc::EINTR) | Late | Short | Signal(libc::SIGCHLD | libc::SIGWINCH | libc::SIGCONT))
    }
}

/// The signals that a command may get at any call.
pub const SIGNALS: [Fault; 5] =
    [Signal(libc::SIGINT), Signal(libc::SIGTERM), Signal(libc::SIGCHLD), Signal(libc::SIGWINCH), Signal(libc::SIGCONT)];

/// The signals that its children may get.
pub const SIGNALS_OF_CHILDREN: [Fault; 4] =
    [Signal(libc::SIGKILL), Signal(libc::SIGTERM), Signal(libc::SIGSEGV), Signal(libc::SIGWINCH)];

/// All classes. The time of day and of the monotonic clock is read without a system call, so only
/// clocks of CPU time can be late.
pub const CLASSES: [Class; 18] = [
    Class {
        name: "open",
        calls: &[libc::SYS_openat],
        faults: &[Error(libc::EMFILE), Error(libc::EIO), Error(libc::EACCES), Error(libc::ENOSPC), Error(libc::EINTR)],
    },
    Class {
        name: "read",
        calls: &[libc::SYS_read, libc::SYS_pread64, libc::SYS_readv, libc::SYS_preadv, libc::SYS_preadv2],
        faults: &[Error(libc::EIO), Error(libc::EINTR), Late],
    },
    Class {
        name: "write",
        calls: &[libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev, libc::SYS_pwritev, libc::SYS_pwritev2],
        faults: &[Error(libc::ENOSPC), Short, Error(libc::EIO), Error(libc::EINTR), Error(libc::EDQUOT), Late],
    },
    Class { name: "memory", calls: &[libc::SYS_mmap, libc::SYS_mremap], faults: &[Error(libc::ENOMEM)] },
    Class { name: "map", calls: &[libc::SYS_mmap], faults: &[Error(libc::ENOMEM), Error(libc::EACCES)] },
    Class {
        name: "thread",
        calls: &[libc::SYS_clone3, libc::SYS_clone],
        faults: &[Error(libc::EAGAIN), Error(libc::ENOMEM)],
    },
    Class { name: "execute", calls: &[libc::SYS_execve], faults: &[Error(libc::ENOMEM), Error(libc::EACCES)] },
    Class {
        name: "flush",
        calls: &[libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_ftruncate, libc::SYS_sync_file_range],
        faults: &[Error(libc::EIO), Error(libc::ENOSPC)],
    },
    Class {
        name: "name",
        calls: &[libc::SYS_linkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_unlinkat, libc::SYS_mkdirat],
        faults: &[Error(libc::EIO), Error(libc::EACCES), Error(libc::ENOSPC)],
    },
    Class {
        name: "look",
        calls: &[libc::SYS_statx, libc::SYS_newfstatat, libc::SYS_getdents64, libc::SYS_readlinkat],
        faults: &[Error(libc::EIO), Error(libc::EACCES)],
    },
    Class {
        name: "descriptor",
        calls: &[libc::SYS_pipe2, libc::SYS_socketpair, libc::SYS_pidfd_open, libc::SYS_memfd_create, libc::SYS_fcntl],
        faults: &[Error(libc::EMFILE), Error(libc::ENFILE)],
    },
    Class {
        name: "wait",
        calls: &[libc::SYS_wait4, libc::SYS_waitid, libc::SYS_ppoll],
        faults: &[Error(libc::EINTR), Late],
    },
    Class { name: "futex", calls: &[libc::SYS_futex], faults: &[Error(libc::EINTR), Late] },
    Class {
        name: "sleep",
        calls: &[libc::SYS_clock_nanosleep, libc::SYS_nanosleep],
        faults: &[Error(libc::EINTR), Late],
    },
    Class { name: "clock", calls: &[libc::SYS_clock_gettime, libc::SYS_getrusage, libc::SYS_times], faults: &[Late] },
    Class {
        name: "timer",
        calls: &[libc::SYS_timer_create, libc::SYS_timer_settime, libc::SYS_timerfd_create, libc::SYS_timerfd_settime],
        faults: &[Error(libc::EAGAIN), Error(libc::ENOMEM)],
    },
    Class {
        name: "signal",
        calls: &[
            libc::SYS_kill,
            libc::SYS_tgkill,
            libc::SYS_pidfd_send_signal,
            libc::SYS_signalfd4,
            libc::SYS_rt_sigaction,
        ],
        faults: &[Error(libc::EPERM), Error(libc::EINVAL)],
    },
    Class {
        name: "scheduling",
        calls: &[
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_getaffinity,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_setattr,
            libc::SYS_setpriority,
        ],
        faults: &[Error(libc::EPERM), Error(libc::EINVAL)],
    },
];

/// Allocations up to this size may end a program.
const SMALL: u64 = 64 << 10;

impl Class {
    pub(super) fn has(&self, call: &Call) -> bool {
        let [first, length, third, fourth, descriptor, _] = call.arguments;
        let blocks = |options: u64| options & libc::WNOHANG as u64 == 0;
        if !self.calls.contains(&call.number) {
            return false;
        }
        match call.number {
            // A message that cannot be written cannot be tested.
            libc::SYS_write | libc::SYS_writev => first != 2,
            libc::SYS_mmap if self.name == "map" => descriptor as i32 != -1,
            libc::SYS_mmap => length > SMALL && descriptor as i32 == -1,
            libc::SYS_wait4 => blocks(third),
            libc::SYS_waitid => blocks(fourth),
            libc::SYS_futex => {
                matches!(length as i32 & libc::FUTEX_CMD_MASK, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
            }
            // Reading the disposition of a signal cannot fail.
            libc::SYS_rt_sigaction => length != 0,
            // Signal 0 only asks whether a process exists.
            libc::SYS_kill => length != 0,
            _ => true,
        }
    }
}
