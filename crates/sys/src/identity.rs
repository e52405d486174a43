//! The identity of a process, which tells whether it is alive, although process IDs are reused.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustix::io::{Errno, pread};
use rustix::process::{Pid, getpid, test_kill_process};
use rustix::system::uname;

/// A process, distinguished by its start time from all others with the same ID.
///
/// It is valid only in the PID namespace in which it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process ID.
    pub pid: u32,
    /// The start time in kernel ticks (mostly of 10 ms) since boot; zero if unknown.
    pub started: u64,
}

impl Identity {
    /// The identity of the calling process.
    pub fn own() -> Identity {
        let pid = getpid().as_raw_pid().unsigned_abs();
        Identity { pid, started: stat(pid).map_or(0, |stat| stat.started) }
    }

    /// Whether the process has not ended yet. A zombie has ended.
    ///
    /// If `/proc` hides it, a process with the same ID is taken for the same process.
    pub fn is_alive(self) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        if test_kill_process(pid) == Err(Errno::SRCH) {
            return false;
        }
        // It may end between the two queries: then the next call finds it gone.
        let Some(stat) = stat(self.pid) else { return true };
        !stat.has_ended() && (self.started == 0 || stat.started == 0 || stat.started == self.started)
    }
}

/// A number that identifies the PID namespace on this machine; zero without `/proc`.
///
/// Processes in different namespaces know one process by different IDs.
pub fn pid_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |stat| stat.st_ino)
}

/// A name of this machine, which other machines do not have, and which it keeps when it is
/// restarted. It may be part of a path.
pub fn machine() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    format!("{}-{}", uname().nodename().to_string_lossy(), id.trim()).replace('/', "-")
}

/// The id of the time since the machine was started. Empty if the kernel does not tell it.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// More bytes than `/proc/PID/stat` has: 52 numbers of at most 20 digits, and a short name.
const LONGEST_STAT: usize = 2048;

/// The flag of threads of the kernel: `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// Fields of `/proc/PID/stat`, or of `/proc/PID/task/TID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process or thread ID.
    pub pid: u32,
    /// `R` running or ready, `S` and `D` asleep, `Z` ended, and others.
    pub state: u8,
    /// The parent's process ID.
    pub parent: u32,
    /// The ID of its session, which is that of the process that leads it. Zero if that process is
    /// not in this PID namespace.
    pub session: u32,
    /// Whether it is a thread of the kernel, which no signal stops or ends.
    pub is_of_kernel: bool,
    /// The start time in kernel ticks since boot.
    pub started: u64,
    /// The CPU on which it ran last. `None` if the kernel does not say.
    pub cpu: Option<u32>,
    threads: u32,
    /// Followed by zeros.
    name: [u8; 15],
}

impl Stat {
    /// The fields of the process with this ID. Returns `None` if it is gone, or is hidden.
    pub fn of(pid: u32) -> Option<Stat> {
        Stat::try_of(pid).ok()?
    }

    /// As [`of`](Self::of). `None` if the file has other contents.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn try_of(pid: u32) -> io::Result<Option<Stat>> {
        Stat::read(format!("/proc/{pid}/stat"))
    }

    fn read(path: impl AsRef<Path>) -> io::Result<Option<Stat>> {
        Stat::of_file(&File::open(path)?)
    }

    /// The fields in an open file. `None` if it has other contents. Switchers of jobs wait for it,
    /// so it has one read: the kernel never gives a part of such a line if all of it has room.
    ///
    /// # Errors
    /// If it cannot be read, or the process or thread has ended.
    pub fn of_file(file: &File) -> io::Result<Option<Stat>> {
        let mut text = [0; LONGEST_STAT];
        let length = pread(file, &mut text, 0)?;
        Ok(Stat::parse(text.get(..length).unwrap_or_default()))
    }

    /// Parses a file: fields, of which the second, a name in parentheses, may contain anything. It
    /// does not allocate.
    pub fn parse(text: &[u8]) -> Option<Stat> {
        let name = text.iter().position(|&byte| byte == b'(')?..=text.iter().rposition(|&byte| byte == b')')?;
        let pid = std::str::from_utf8(&text[..*name.start()]).ok()?.trim().parse().ok()?;
        // The first of these is the third of all.
        let mut fields = std::str::from_utf8(text.get(name.end() + 1..)?).ok()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let flags: u32 = fields.nth(2)?.parse().ok()?;
        let threads = fields.nth(10)?.parse().ok()?;
        let started = fields.nth(1)?.parse().ok()?;
        let cpu = fields.nth(16).and_then(|cpu| cpu.parse().ok());
        let is_of_kernel = flags & KERNEL_THREAD != 0;
        let mut stat = Stat { pid, state, parent, session, is_of_kernel, threads, started, cpu, name: [0; 15] };
        stat.name.iter_mut().zip(text.get(name.start() + 1..*name.end())?).for_each(|(to, from)| *to = *from);
        Some(stat)
    }

    /// The name of the command, which the process may have chosen. The kernel keeps 15 bytes of it.
    pub fn name(&self) -> &[u8] {
        self.name.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Whether the process has ended. A process whose main thread has ended before the others is a
    /// zombie as well, but its other threads are counted.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    /// Whether it needs only a CPU to end, if it was killed: it has not ended, and is not in an
    /// uninterruptible system call, nor frozen.
    pub fn waits_for_cpu(&self) -> bool {
        self.state != b'D' && !self.has_ended()
    }
}

/// Reads the state of the process with this ID, if the kernel reports it.
fn stat(pid: u32) -> Option<Stat> {
    /// `/proc` may show the processes of another namespace, with other IDs.
    static IS_OURS: OnceLock<bool> = OnceLock::new();
    let own = || Stat::read("/proc/self/stat").ok().flatten();
    let is_ours = || own().is_some_and(|stat| Some(stat.pid) == getpid().as_raw_pid().try_into().ok());
    if *IS_OURS.get_or_init(is_ours) { Stat::of(pid) } else { None }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn of(pid: u32) -> Identity {
        Identity { pid, started: stat(pid).unwrap().started }
    }

    #[test]
    fn the_own_process_is_alive() {
        let own = Identity::own();
        assert_eq!(own.pid, std::process::id());
        assert!(own.started > 0);
        assert!(own.is_alive());
    }

    #[test]
    fn a_process_has_ended_before_and_after_it_is_waited_for() {
        let mut child = testing::command("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let identity = of(child.id());
        assert!(identity.is_alive());
        child.kill().unwrap();
        // The signal takes a while to arrive.
        while identity.is_alive() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!identity.is_alive());
    }

    #[test]
    fn a_process_with_another_start_time_differs() {
        let own = Identity::own();
        assert!(!Identity { started: own.started - 1, ..own }.is_alive());
        assert!(Identity { started: 0, ..own }.is_alive());
    }

    #[test]
    fn impossible_ids_are_not_alive() {
        for pid in [0, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX] {
            assert!(!Identity { pid, started: 0 }.is_alive());
        }
    }

    #[test]
    fn a_name_may_look_like_anything() {
        let stat = |name: &str, state: &str, threads: u32| {
            format!("17 ({name}) {state} 1 16 15 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 4711 2703360 400")
        };
        for name in ["sh", "a b", ") Z 0 0 (", "((", "\u{e4}", "(a) R (b) c"] {
            let parsed = Stat::parse(stat(name, "S", 1).as_bytes()).unwrap();
            assert_eq!(parsed.name(), name.as_bytes());
            assert_eq!((parsed.pid, parsed.state, parsed.parent, parsed.session), (17, b'S', 1, 15));
            assert_eq!((parsed.threads, parsed.started), (1, 4711));
        }
        assert!(Stat::parse(stat("sh", "Z", 1).as_bytes()).unwrap().has_ended());
        assert!(!Stat::parse(stat("sh", "Z", 2).as_bytes()).unwrap().has_ended(), "the first thread alone");
        let waits_for_cpu = |state| Stat::parse(stat("sh", state, 1).as_bytes()).unwrap().waits_for_cpu();
        assert_eq!(["R", "S", "D", "Z"].map(waits_for_cpu), [true, true, false, false]);
        for text in [
            "",
            "17",
            "17 (sh",
            "17 (sh) ",
            "17 (sh) R",
            "17 (sh) R x 1",
            "17 )sh( S",
            "4294967313 (sh) S 1",
            "17 (sh) S 1 2 3",
        ] {
            assert_eq!(Stat::parse(text.as_bytes()), None, "{text}");
        }
    }
}
