//! Processes: children that end with their parent, and the resource usage of threads.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::iter::once;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr::null;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, getpid, getppid, ioctl_tiocsctty, set_child_subreaper, set_parent_process_death_signal, setsid,
};
use rustix::time::{ClockId, clock_gettime};

/// The signals by which a terminal or a service manager asks every process of a group to end.
pub(crate) const REQUESTS_TO_END: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM];

/// How a child reacts to requests to end a process group: SIGINT, SIGQUIT, SIGHUP and SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestsToEnd {
    /// It ignores them: its parent receives them as well, and ends its children in an orderly way.
    Ignore,
    /// It ends, by the default action.
    Obey,
    /// It reacts as a program that a shell has started: it ignores those that this process ignores,
    /// as under `nohup`.
    Inherit,
}

/// A command that executes this program once more, also if its file was replaced or removed
/// meanwhile, as by an upgrade.
pub fn own_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    let name = env::args_os().next();
    name.map(|name| command.arg0(name));
    command
}

/// Makes the kernel kill the child of `command` when the thread that starts it ends, however that
/// happens, and sets how the child reacts to [`RequestsToEnd`]. Both survive exec.
///
/// The child is bound to the *thread* that calls [`Command::spawn`], which must live as long as the
/// child should. A child whose parent ends before the binding is established exits at once.
pub fn end_with_this_thread(command: &mut Command, requests: RequestsToEnd) {
    let parent = getpid();
    let prepare = move || {
        react(requests)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that died before sends no signal, and is not there to receive an error.
        if getppid() != Some(parent) {
            // SAFETY: `_exit` is async-signal-safe and runs no other code of this process.
            unsafe { libc::_exit(1) }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run. `prepare` makes
    // system calls and accesses only its own values: no lock, no allocation.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the child of `command` the leader of a new session, controlled by the terminal that is its
/// standard input. It fails to start if that is no terminal, or one that controls another session.
pub fn lead_session(command: &mut Command) {
    let prepare = || {
        setsid()?;
        Ok(ioctl_tiocsctty(rustix::stdio::stdin())?)
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run. `prepare` makes two
    // system calls.
    unsafe { command.pre_exec(prepare) };
}

/// Sets how this process and the programs that it executes react to requests to end. It is
/// async-signal-safe.
pub(crate) fn react(requests: RequestsToEnd) -> io::Result<()> {
    let disposition = match requests {
        RequestsToEnd::Ignore => libc::SIG_IGN,
        RequestsToEnd::Obey => libc::SIG_DFL,
        RequestsToEnd::Inherit => return Ok(()),
    };
    for signal in REQUESTS_TO_END {
        // SAFETY: `signal` is async-signal-safe, and neither disposition runs code.
        if unsafe { libc::signal(signal, disposition) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Makes `command` execute exactly this file, with its current name, arguments and environment, or
/// fail. By default a command searches for its program, and a shell interprets any file that the
/// kernel cannot execute, even a program for another machine.
///
/// It must be the last change to the command, whose environment must not be cleared. Fails if a
/// path, an argument or a variable contains a zero byte.
pub fn execute_only(command: &mut Command, file: &Path) -> io::Result<()> {
    let mut variables: BTreeMap<OsString, OsString> = env::vars_os().collect();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => variables.insert(name.to_owned(), value.to_owned()),
            None => variables.remove(name),
        };
    }
    let variables = variables.into_iter().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    });
    let file = CString::new(file.as_os_str().as_bytes())?;
    let arguments = Strings::new(once(command.get_program()).chain(command.get_args()))?;
    let variables = Strings::new(variables)?;
    let execute = move || {
        // SAFETY: the path and the items of the lists are C strings, and both lists end with null.
        unsafe { libc::execve(file.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    // SAFETY: `execve` is async-signal-safe, as required here, and all memory was allocated before.
    unsafe { command.pre_exec(execute) };
    Ok(())
}

/// A list of strings as the kernel takes it.
struct Strings {
    pointers: Vec<*const c_char>,
    /// Owns the memory that the pointers refer to.
    _strings: Vec<CString>,
}

// SAFETY: the pointers refer to the strings beside them, which never change or move.
unsafe impl Send for Strings {}
// SAFETY: as above; there is no way to modify it.
unsafe impl Sync for Strings {}

impl Strings {
    fn new(strings: impl Iterator<Item: AsRef<OsStr>>) -> io::Result<Strings> {
        let strings: Vec<CString> =
            strings.map(|string| CString::new(string.as_ref().as_bytes())).collect::<Result<_, _>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr()).chain(once(null())).collect();
        Ok(Strings { pointers, _strings: strings })
    }

    /// A null-terminated list.
    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// Makes the calling process the parent of every orphan among its descendants.
pub fn adopt_orphans() -> io::Result<()> {
    // The kernel asks only whether the argument is zero.
    Ok(set_child_subreaper(Some(Pid::INIT))?)
}

/// Resource usage of a thread or a set of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, in user and kernel mode.
    pub cpu: Duration,
    /// The part in kernel mode: an estimate by ticks, unless the kernel reads a clock at each call.
    pub system: Duration,
    /// The number of times a thread blocked.
    pub voluntary_switches: u64,
    /// The number of times a thread was preempted or yielded to another.
    pub involuntary_switches: u64,
}

impl Usage {
    /// The usage since `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            system: self.system.saturating_sub(earlier.system),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.cpu += other.cpu;
        self.system += other.system;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
    }
}

/// The usage of the calling thread since it began.
pub fn thread_usage() -> Usage {
    // The resource usage of a running thread is only updated at ticks.
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let cpu = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.try_into().unwrap_or(0));
    Usage { cpu, ..usage(libc::RUSAGE_THREAD) }
}

/// The usage of all threads of this process, including those that have ended.
pub fn own_usage() -> Usage {
    usage(libc::RUSAGE_SELF)
}

/// The usage of all descendants of this process that have ended and been waited for, by this
/// process or by a parent that has been waited for in turn.
pub fn descendants_usage() -> Usage {
    usage(libc::RUSAGE_CHILDREN)
}

fn usage(who: libc::c_int) -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` to the given address, which has room for it. If it
    // failed, the zeros would remain, which are valid as well.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    Usage {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        system: time(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw.unsigned_abs(),
        involuntary_switches: usage.ru_nivcsw.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    use testing::Child;

    use super::*;

    fn shell(script: &str, requests: RequestsToEnd) -> Command {
        let mut command = testing::command("sh");
        command.args(["-c", script]);
        end_with_this_thread(&mut command, requests);
        command
    }

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        use std::os::unix::process::ExitStatusExt;
        let start = || Child::start(&mut shell("exec sleep 1000", RequestsToEnd::Ignore));
        let output = std::thread::spawn(start).join().unwrap().finish();
        assert_eq!((output.status.signal(), output.killed), (Some(libc::SIGKILL), None));
    }

    #[test]
    fn requests_to_end_are_ignored_or_obeyed() {
        for (requests, ends) in [(RequestsToEnd::Ignore, false), (RequestsToEnd::Obey, true)] {
            let child = Child::start(&mut shell("kill -TERM $$; kill -INT $$; kill -HUP $$; exit 7", requests));
            assert_eq!(child.finish().status.code(), if ends { None } else { Some(7) });
        }
    }

    #[test]
    fn requests_to_end_that_are_ignored_here_can_remain_so() {
        testing::isolated(|| {
            for (own, ends) in [(RequestsToEnd::Ignore, false), (RequestsToEnd::Obey, true)] {
                react(own).unwrap();
                // `testing::command` would restore the defaults.
                let mut command = Command::new("sh");
                end_with_this_thread(command.args(["-c", "kill -HUP $$; exit 7"]), RequestsToEnd::Inherit);
                assert_eq!(Child::start(&mut command).finish().status.code(), if ends { None } else { Some(7) });
            }
        });
    }

    #[test]
    fn computing_uses_cpu_time_and_sleeping_switches_voluntarily() {
        let before = thread_usage();
        // Each loop ends only if the usage keeps growing.
        while thread_usage().since(before).cpu < Duration::from_millis(1) {}
        while thread_usage().since(before).voluntary_switches == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_cpu_time_of_a_thread_is_up_to_date_between_two_ticks() {
        let readings: Vec<Duration> = (0..1_000).map(|_| thread_usage().cpu).collect();
        assert!(readings.is_sorted());
        // A clock based on ticks advances by at least a millisecond.
        let is_finer = |pair: &[Duration]| pair[0] < pair[1] && pair[1] - pair[0] < Duration::from_micros(500);
        assert!(readings.windows(2).any(is_finer));
    }

    #[test]
    fn the_usage_of_a_child_is_known_after_it_was_waited_for() {
        let before = descendants_usage();
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        testing::run(&mut shell(script, RequestsToEnd::Obey)).expect_success();
        assert!(descendants_usage().since(before).cpu > Duration::from_millis(1));
    }
}
