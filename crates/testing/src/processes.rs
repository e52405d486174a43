//! Trees of processes in /proc.

use std::fmt::Write;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// The environment variable with the name of the test that started a process, in the runner's
/// notation.
pub const STARTER: &str = "RUN_TESTS_STARTER";

/// The children of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// A process and its descendants, parents first.
pub fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() {
        all.extend(children(all[next]));
        next += 1;
    }
    all
}

/// The state of a process, as in its `stat`. `None` if there is no such process.
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

/// The CPU time of a process and of the descendants that it and they have reaped, in steps of 10
/// ms. Zero if there is no such process.
pub fn cpu_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may contain anything: the third field and those after it. The times are
    // the fields 14 to 17.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(4);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Whether a process is stopped, by a signal or in a frozen control group. `None` if there is no
/// such process.
pub fn is_stopped(pid: u32) -> Option<bool> {
    const FROZEN: [&str; 3] = ["__refrigerator", "get_signal", "do_freezer_trap"];
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    Some(state(pid)? == 'T' || FROZEN.contains(&place.as_str()))
}

/// Whether a SIGSTOP is pending for a process. It stops when it next has a CPU.
pub fn has_pending_stop(pid: u32) -> bool {
    const STOP: u64 = 1 << 18;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().filter_map(|line| line.strip_prefix("ShdPnd:"));
    pending.filter_map(|signals| u64::from_str_radix(signals.trim(), 16).ok()).any(|signals| signals & STOP != 0)
}

/// The processes that can write to a pipe, without the calling one.
pub fn writers(pipe: impl AsFd) -> Vec<u32> {
    let own = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    let (Ok(pipe), Ok(entries)) = (fs::read_link(own), fs::read_dir("/proc")) else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let can_write = |pid: &u32| {
        let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors.any(|descriptor| {
            // The permissions of the link are the access mode of the descriptor.
            let is_to_write = descriptor.metadata().is_ok_and(|link| link.mode() & 0o200 != 0);
            is_to_write && fs::read_link(descriptor.path()).is_ok_and(|target| target == pipe)
        })
    };
    pids.filter(|pid| *pid != std::process::id()).filter(can_write).collect()
}

/// The processes of a session that have not ended, without those that left it.
pub fn session(number: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_member = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which may contain anything: state, parent, process group, session.
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split_whitespace();
        let is_alive = !matches!(fields.next(), None | Some("Z" | "X"));
        is_alive && fields.nth(2).and_then(|session| session.parse().ok()) == Some(number)
    };
    pids.filter(is_member).collect()
}

/// Kills a process and its descendants.
pub fn kill_tree(pid: u32) {
    for pid in tree(pid) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Waits until the calling process has no children, including adopted ones. Kills those that are
/// left after this time and returns their description, which is empty if there are none.
pub fn wait_for_orphans(limit: Duration) -> String {
    let deadline = Instant::now() + limit;
    loop {
        // Reaps ended children.
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let left = children(std::process::id());
        if left.is_empty() {
            return String::new();
        }
        if Instant::now() >= deadline {
            let describe = |&pid| {
                let starter = variable(pid, STARTER).unwrap_or_else(|| "an unknown test".to_owned());
                format!("by {starter}:\n{}", describe_tree(pid))
            };
            let text = left.iter().map(describe).collect();
            left.into_iter().for_each(kill_tree);
            return text;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The value that an environment variable had when a process started. `None` if it was not set, or
/// if the process may not be read.
fn variable(pid: u32, name: &str) -> Option<String> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = variables.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    variables.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// A line for each thread of a process and of its descendants: its name, its state, and the kernel
/// function and system call in which it waits, as far as the kernel shows them.
pub fn describe_tree(pid: u32) -> String {
    tree(pid).into_iter().map(describe).collect()
}

/// As [`describe_tree`], without descendants.
pub(crate) fn describe(pid: u32) -> String {
    let arguments = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
    let mut text = format!("process {pid}: {}\n", arguments.trim_end());
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?');
        let call = read("syscall");
        let call = call.split_whitespace().next().unwrap_or("?");
        let (name, place) = (read("comm"), read("wchan"));
        let number = thread.file_name();
        let number = number.to_string_lossy();
        let _ = writeln!(text, "  thread {number} {}: state {state}, in {place}, system call {call}", name.trim());
    }
    text
}
