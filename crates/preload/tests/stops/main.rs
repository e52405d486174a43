//! In a job of `rowlock prun`, stops end no call of a program unless a signal handler has run.
//!
//! A C program waits in one call. It is stopped and continued there by each mechanism that works
//! here.
#![cfg(target_arch = "x86_64")] // The numbers of system calls.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

#[path = "../common/library.rs"]
mod library;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sys::cgroups::Hierarchy;
use sys::containment::JobGroup;
use tempfile::TempDir;
use testing::Child;

/// The calls, and the numbers of the system calls in which they wait.
const CALLS: [&str; 26] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "semop",
    "semtimedop",
    "sigwaitinfo",
    "sigtimedwait",
    "recv",
    "__recv_chk",
    "recvfrom",
    "__recvfrom_chk",
    "recvmsg",
    "recvmmsg",
    "read",
    "__read_chk",
    "readv",
    "accept",
    "accept4",
    "send",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "write",
    "writev",
    "connect_to_unix",
    "connect_to_tcp",
];
/// The last is `ppoll`, which waits in place of some.
const NUMBERS: [&str; 20] = [
    "232", "281", "441", "65", "220", "128", "45", "47", "299", "0", "19", "43", "288", "44", "46", "307", "1", "20",
    "42", "271",
];

/// The program. `None` without a compiler.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let build = || {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("waits");
        let mut command = testing::command(testing::tool("CC", "cc")?);
        command.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-o"]).arg(&built);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stops/waits.c"));
        testing::run(&mut command).expect_success();
        Some((folder, built))
    };
    BUILT.get_or_init(build).as_ref().map(|(_, built)| built.as_path())
}

/// A program that waits, by a mechanism that stops it.
struct Waiting {
    child: Child,
    pid: u32,
    group: Option<(JobGroup, u32)>,
}

/// Waits until a condition holds. The runner limits the time of each test.
fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The groups that can be frozen here, by their version, and no group, for signals.
fn mechanisms() -> Vec<Option<u32>> {
    let groups = Hierarchy::all().into_iter().filter(|hierarchy| create(hierarchy).is_some());
    groups.map(|hierarchy| Some(hierarchy.version)).chain([None]).collect()
}

fn create(hierarchy: &Hierarchy) -> Option<JobGroup> {
    let file = if hierarchy.version == 2 { "cgroup.freeze" } else { "freezer.state" };
    JobGroup::create(hierarchy).ok().filter(|group| group.control(file).is_ok())
}

impl Waiting {
    /// Starts the program in a job, and waits until it waits.
    fn start(program: &Path, arguments: [&str; 3], mechanism: Option<u32>, job: Option<&str>) -> Waiting {
        let group = mechanism.map(|version| {
            let group = Hierarchy::all().iter().filter(|found| found.version == version).find_map(create);
            (group.unwrap(), version)
        });
        let mut command = testing::command(program);
        command.args(arguments).env("LD_PRELOAD", library::preload());
        command.envs(job.map(|job| ("ROWLOCK_JOB", job)));
        let mut child = Child::start_piped(&mut command);
        let pid: u32 = child.read_line().trim().parse().unwrap();
        if let Some((group, _)) = &group {
            group.control("cgroup.procs").unwrap().write(&pid.to_string()).unwrap();
        }
        let waiting = Waiting { child, pid, group };
        until(|| waiting.is_in_call() || waiting.has_ended());
        waiting
    }

    fn is_in_call(&self) -> bool {
        let call = read(&format!("/proc/{}/syscall", self.pid));
        call.split_whitespace().next().is_some_and(|number| NUMBERS.contains(&number))
    }

    fn has_ended(&self) -> bool {
        let stat = read(&format!("/proc/{}/stat", self.pid));
        stat.is_empty() || stat.contains(") Z ")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid as i32).unwrap(), signal).unwrap();
    }

    fn stop(&self) {
        let Some((group, version)) = &self.group else {
            self.signal(Signal::STOP);
            return until(|| self.has_ended() || read(&format!("/proc/{}/stat", self.pid)).contains(") T "));
        };
        let (file, frozen, state, shown) = match version {
            2 => ("cgroup.freeze", "1", "cgroup.events", "frozen 1"),
            _ => ("freezer.state", "FROZEN", "freezer.state", "FROZEN"),
        };
        group.control(file).unwrap().write(frozen).unwrap();
        until(|| group.control(state).unwrap().read().unwrap().contains(shown));
    }

    fn go_on(&self) {
        match &self.group {
            None => self.signal(Signal::CONT),
            Some((group, 2)) => group.control("cgroup.freeze").unwrap().write("0").unwrap(),
            Some((group, _)) => group.control("freezer.state").unwrap().write("THAWED").unwrap(),
        }
    }

    /// Stops and continues it, and waits until it waits again or has ended. Until it runs, it is
    /// shown in the call that the stop has ended. It leaves its CPU when it stops, and when it waits
    /// again. Some waits go on while a group is frozen.
    fn stop_in_between(&self) {
        let waiting = self.switches();
        self.stop();
        let stopped = self.switches();
        self.go_on();
        let has_returned = || stopped == waiting || self.switches() > stopped;
        until(|| self.is_in_call() && has_returned() || self.has_ended());
    }

    /// How often its main thread has left its CPU by itself.
    fn switches(&self) -> u64 {
        let status = read(&format!("/proc/{}/status", self.pid));
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.map_or(0, |count| count.trim().parse().unwrap())
    }

    /// Ends the wait if it has not ended.
    fn end(&mut self) {
        self.child.write_line("");
    }

    /// The result that the program prints.
    fn result(mut self) -> String {
        let result = self.child.read_line().trim().to_owned();
        self.child.finish().expect_success();
        result
    }
}

/// Runs a test for each mechanism and each call, with a handler.
fn for_each_wait(option: &str, test: impl Fn(&str, &dyn Fn(&str, Option<&str>) -> Waiting)) {
    let Some(program) = program() else { return };
    for mechanism in mechanisms() {
        for call in CALLS {
            test(call, &|timeout, job| Waiting::start(program, [call, timeout, option], mechanism, job));
        }
    }
}

/// The result of a call that has ended without an error.
fn success(call: &str) -> &'static str {
    match call {
        "sigwaitinfo" | "sigtimedwait" => "10 0, 0 handled",
        "semop" | "semtimedop" | "connect_to_unix" | "connect_to_tcp" => "0 0, 0 handled",
        _ => "1 0, 0 handled",
    }
}

#[test]
fn a_stop_ends_no_call_of_a_job() {
    for option in ["counted", "forked"] {
        for_each_wait(option, |call, start| {
            for timeout in ["-1", "1000000"] {
                let mut waits = start(timeout, Some("1"));
                for _ in 0..3 {
                    waits.stop_in_between();
                }
                waits.end();
                assert_eq!(waits.result(), success(call), "{call} {timeout} {option}");
            }
        });
    }
}

/// How long they last does not matter.
#[test]
fn stops_do_not_make_a_timeout_longer() {
    for_each_wait("counted", |call, start| {
        if matches!(call, "semop" | "sigwaitinfo") {
            return;
        }
        let waits = start("100", Some("1"));
        // If each stop began the time again, the call would never end.
        let ends = (0..200).any(|_| {
            waits.stop();
            waits.go_on();
            std::thread::sleep(Duration::from_millis(20));
            waits.has_ended()
        });
        assert!(ends, "{call}");
        let expected = match call {
            "connect_to_tcp" => "-1 EINPROGRESS, 0 handled",
            _ if call.starts_with("epoll") => "0 0, 0 handled",
            _ => "-1 EAGAIN, 0 handled",
        };
        assert_eq!(waits.result(), expected, "{call}");
    });
}

#[test]
fn a_handler_that_has_run_ends_a_call_during_a_stop_or_not() {
    for option in ["counted", "once", "forked"] {
        for_each_wait(option, |call, start| {
            for is_stopped in [false, true] {
                let waits = start("-1", Some("1"));
                if is_stopped {
                    // A call that was repeated once.
                    waits.stop_in_between();
                    waits.stop();
                }
                waits.signal(Signal::USR2);
                if is_stopped {
                    waits.go_on();
                }
                let result = waits.result();
                assert_eq!(result, "-1 EINTR, 1 handled", "{call} {option} {is_stopped}");
            }
        });
    }
}

#[test]
fn a_stop_is_seen_by_a_program_outside_of_jobs_and_by_one_whose_handlers_are_unknown() {
    for (option, job) in [("counted", None), ("unseen", Some("1"))] {
        for_each_wait(option, |call, start| {
            // Some mechanisms do not end `sigtimedwait`.
            if call.starts_with("sig") {
                return;
            }
            let waits = start("-1", job);
            waits.stop();
            waits.go_on();
            let result = waits.result();
            assert_eq!(result, "-1 EINTR, 0 handled", "{call} {option}");
        });
    }
}
