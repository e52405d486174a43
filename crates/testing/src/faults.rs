//! Failures of system calls: the n-th call of a class, made by a command or by the processes that
//! it starts, fails, is late, does only a part, or is interrupted by a signal.
//!
//! All processes run unmodified. The kernel asks this process before each call of the class. Those
//! that a process of the command's own program makes before its `main` are not counted, since they
//! belong to the dynamic linker and the standard library.

mod classes;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use sys::pages::Pages;
use sys::seccomp::{Answer, Asking, Call, ask_before};

pub use self::classes::{CLASSES, Class, Fault, SIGNALS, SIGNALS_OF_CHILDREN};
use crate::child::{Child, Output};

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(60);

/// How long a machine under load may take to end its descendants. On a quiet one it is two seconds.
const DESCENDANTS: Duration = Duration::from_secs(30);

/// The delay of a late call.
const DELAY: Duration = Duration::from_millis(20);

/// Whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those of the process that is started, until it executes another program.
    Command,
    /// Those of all other processes, and of other programs.
    Children,
}

/// A call that fails.
#[derive(Clone, Copy, Debug)]
pub struct Injection {
    /// Whose call it is.
    pub side: Side,
    /// The class of the call.
    pub class: &'static Class,
    /// How it fails.
    pub fault: Fault,
    /// Its number among the calls of this class on this side, counted from 1.
    pub nth: u64,
}

/// The end of a command in which a call failed.
#[derive(Debug)]
pub struct Ended {
    /// Its output.
    pub output: Output,
    /// The id that its process had.
    pub process: u32,
    /// Whether it made so many calls that one failed.
    pub has_failed_call: bool,
    /// Whether that was in a program other than the command's own.
    pub has_failed_elsewhere: bool,
    /// Whether other processes that it started did not end.
    pub has_left_processes: bool,
}

/// How many calls of each class a command makes, and the processes that it starts.
pub type Counts = [[u64; CLASSES.len()]; 2];

/// Runs a command in which no call fails, and counts its calls.
///
/// # Errors
/// If the kernel does not let this process answer calls.
///
/// # Panics
/// As [`crate::run`].
pub fn run_and_count(command: &mut Command) -> io::Result<(Output, Counts)> {
    let mut counts = Counts::default();
    let (_, output, _) = attend(command, &CLASSES.each_ref(), |call, caller| {
        for (count, class) in counts[caller.side as usize].iter_mut().zip(&CLASSES) {
            *count += u64::from(class.has(call));
        }
        Answer::Continue
    })?;
    Ok((output, counts))
}

/// Runs a command in which a call fails.
///
/// # Errors
/// If the kernel does not let this process answer calls.
///
/// # Panics
/// As [`crate::run`].
pub fn run_with_fault(command: &mut Command, injection: Injection) -> io::Result<Ended> {
    let Injection { side, class, fault, nth } = injection;
    let (mut count, mut has_failed_elsewhere) = (0, false);
    let (process, output, has_left_processes) = attend(command, &[class], |call, caller| {
        if caller.side != side || !class.has(call) {
            return Answer::Continue;
        }
        count += 1;
        if count != nth {
            return Answer::Continue;
        }
        has_failed_elsewhere = !caller.is_own_program;
        answer(fault, call)
    })?;
    Ok(Ended { output, process, has_failed_call: count >= nth, has_failed_elsewhere, has_left_processes })
}

/// The caller of a system call.
struct Caller {
    side: Side,
    is_own_program: bool,
}

/// The processes of a command.
struct Processes {
    program: PathBuf,
    started: u32,
    /// Those that execute the command's program and have not come to its `main`.
    before_main: HashSet<u32>,
    /// Those that execute another program.
    other_programs: HashSet<u32>,
}

impl Processes {
    /// The caller. `None` if its calls are not counted yet.
    fn caller(&mut self, call: &Call) -> Option<Caller> {
        let process = process_of(call.thread)?;
        match call.number {
            // The dynamic linker asks where the heap begins.
            libc::SYS_brk if call.arguments[0] == 0 && !self.before_main.contains(&process) => {
                let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
                if program == self.program {
                    self.before_main.insert(process);
                } else {
                    self.other_programs.insert(process);
                }
            }
            // The handler that `main` installs first.
            libc::SYS_rt_sigaction if call.arguments[0] == libc::SIGXFSZ as u64 => {
                self.before_main.remove(&process);
                return None;
            }
            _ => {}
        }
        let is_own_program = !self.other_programs.contains(&process);
        let side = if process == self.started && is_own_program { Side::Command } else { Side::Children };
        (!self.before_main.contains(&process)).then_some(Caller { side, is_own_program })
    }
}

/// The process of a thread.
fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Runs a command, and lets this function answer the calls of these classes. Returns the id of
/// the process, the output, and whether processes are left.
fn attend(
    command: &mut Command,
    classes: &[&Class],
    answer: impl FnMut(&Call, &Caller) -> Answer + Send,
) -> io::Result<(u32, Output, bool)> {
    let marks = [libc::SYS_rt_sigaction, libc::SYS_brk];
    let mut calls: Vec<i64> = classes.iter().flat_map(|class| class.calls).copied().chain(marks).collect();
    calls.sort_unstable();
    calls.dedup();
    let program = fs::canonicalize(command.get_program())?;
    let asking = ask_before(command, &calls)?;
    let ended = OnceLock::new();
    thread::scope(|scope| {
        // Starting the child includes calls that have to be answered.
        let answering = scope.spawn(|| answer_all(asking, program, &ended, answer));
        let output = Child::try_start(command).map(|child| (child.id(), child.with_limit(LIMIT).finish()));
        ended.get_or_init(Instant::now);
        let has_left_processes = answering.join().unwrap_or_else(|why| resume_unwind(why));
        let (process, output) = output?;
        Ok((process, output, has_left_processes?))
    })
}

/// Answers calls until all processes have ended. Returns whether they have not, for a while after
/// the end of the first one.
fn answer_all(
    mut asking: Asking,
    program: PathBuf,
    ended: &OnceLock<Instant>,
    mut answer: impl FnMut(&Call, &Caller) -> Answer,
) -> io::Result<bool> {
    let is_over = || ended.get().is_some_and(|end| end.elapsed() > DESCENDANTS);
    let (listener, started) = loop {
        match asking.listener()? {
            Some(found) => break found,
            None if is_over() => return Ok(false),
            None => {}
        }
    };
    let (before_main, other_programs) = (HashSet::from([started]), HashSet::new());
    let mut processes = Processes { program, started, before_main, other_programs };
    while listener.has_callers() {
        if is_over() {
            return Ok(true);
        }
        if let Some(call) = listener.next()? {
            let caller = processes.caller(&call);
            listener.answer(&call, caller.map_or(Answer::Continue, |caller| answer(&call, &caller)));
        }
    }
    Ok(false)
}

fn answer(fault: Fault, call: &Call) -> Answer {
    match fault {
        Fault::Error(number) => Answer::Error(number),
        Fault::Short => write_half(call).unwrap_or(Answer::Continue),
        Fault::Late => {
            thread::sleep(DELAY);
            Answer::Continue
        }
        Fault::Signal(signal) => {
            if let Some(process) = process_of(call.thread).and_then(|id| Pid::from_raw(id as i32)) {
                // It may have been killed.
                let _ = sys::signals::send(process, signal);
            }
            Answer::Continue
        }
    }
}

/// Carries out the first half of a write. Returns `None` if it cannot be divided.
fn write_half(call: &Call) -> Option<Answer> {
    let [descriptor, address, length, place, ..] = call.arguments;
    if ![libc::SYS_write, libc::SYS_pwrite64].contains(&call.number) {
        return None;
    }
    // Direct I/O takes whole pages, from whole pages.
    let half = if length % 4096 == 0 { length / 2 / 4096 * 4096 } else { length / 2 };
    let mut bytes = Pages::new(half as usize).ok().filter(|bytes| !bytes.is_empty())?;
    let process = process_of(call.thread)?;
    File::open(format!("/proc/{process}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    let process = pidfd_open(Pid::from_raw(process as i32)?, PidfdFlags::empty()).ok()?;
    let file = pidfd_getfd(process, descriptor as i32, PidfdGetfdFlags::empty()).ok()?;
    let mut file = File::from(file);
    let written = if call.number == libc::SYS_write { file.write(&bytes) } else { file.write_at(&bytes, place) };
    written.ok().map(|written| Answer::Value(written as i64))
}
