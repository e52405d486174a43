//! The keeper: the process between a starter and its program.
//!
//! It runs after a fork of a process that may have several threads, so it only makes system calls:
//! it takes no lock and allocates nothing.
//!
//! # Why nothing is missed
//!
//! 1. The keeper adopts orphans before the program exists, so every descendant of the program is a
//!    descendant of the keeper as long as that lives.
//! 2. Only the keeper reaps its children. Until then their ids are not used again, so a signal to a
//!    child never reaches another process.
//! 3. It kills its children until it has none. The children of a killed one become its own.
//!
//! If the keeper itself is killed, the kernel kills the program, and what the program started is
//! found by its `record` and its `group`.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    DumpableBehavior, Pid, Signal, getpid, getppid, kill_process, set_dumpable_behavior,
    set_parent_process_death_signal, setpgid, setsid,
};
use rustix::thread::set_name;
use rustix::time::{ClockId, clock_gettime};

use super::Manner;
use super::group::Group;
use super::job_group::Entrance;
use super::kill_deadline::KillDeadline;
use super::programs;
use super::record::Record;
use crate::identity::Stat;
use crate::process::{REQUESTS_TO_END, RequestsToEnd, adopt_orphans, react};

/// The time between the request to end and SIGKILL, in nanoseconds.
const GRACE: i64 = 1_000_000_000;
/// The time between two rounds of killing.
const ROUND: i64 = 1_000_000;
pub(super) const NANOS: i64 = 1_000_000_000;

/// The task of a keeper.
pub(super) struct Order {
    /// The pipe that ends with the starter.
    pub(super) end: OwnedFd,
    /// The pipe that tells the starter by which signals the program stops, a byte for each.
    pub(super) stops: OwnedFd,
    pub(super) starter: Pid,
    pub(super) manner: Manner,
    /// `None` if there is no place for one.
    pub(super) record: Option<Record>,
    /// The groups of the job, which the program enters.
    pub(super) entrances: Vec<Entrance>,
}

/// Divides the calling process, which is about to execute the program: its child returns to do so,
/// and the process itself becomes the keeper and never returns.
pub(super) fn divide(order: &Order) -> io::Result<()> {
    adopt_orphans()?;
    let keeper = getpid();
    let (ready, gate) = pipe_with(PipeFlags::CLOEXEC)?;
    // The program might stop its keeper.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read, the default disposition runs no code, and
    // both functions are async-signal-safe.
    let (mask, children) = unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, every_signal().as_ptr(), mask.as_mut_ptr());
        // If it were ignored, the kernel would reap children without reporting how they ended.
        let children = libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        (mask.assume_init(), children)
    };
    let signals = signals()?;
    // `pkill rowlock` does not find it by this name, so it can end what is left.
    set_name(c"keeper")?;
    // From here on, nothing fails but the fork, so nothing is left.
    let record = order.record.as_ref().and_then(|record| Some((record, record.create()?)));
    let group = record.as_ref().and_then(|(record, _)| record.group.as_ref());
    // SAFETY: this process has one thread, being the child of a fork. Its child makes only system
    // calls until it executes the program.
    let in_group = unsafe { group.and_then(|group| group.fork()) };
    // SAFETY: likewise.
    let program = in_group.unwrap_or_else(|| unsafe { libc::fork() });
    if program < 0 {
        #[cfg(rowlock_canary = "a-program-is-not-started")]
        exit(0);
        let why = io::Error::last_os_error();
        record.iter().for_each(|(record, _)| record.remove());
        return Err(why);
    }
    match Pid::from_raw(program) {
        Some(program) => keep(order, program, gate, &signals, record.as_ref()),
        None => {
            become_program(keeper, order.manner, &mask, children)?;
            order.entrances.iter().try_for_each(|entrance| entrance.enter(in_group.is_some()))?;
            // The keeper closes the other end when it is ready: from then on, the program cannot
            // keep it from noticing the end of its starter.
            drop(gate);
            let _ = retry_on_intr(|| rustix::io::read(&ready, &mut [0_u8]));
            Ok(())
        }
    }
}

/// Prepares the process of the program, which is a child of the keeper.
fn become_program(keeper: Pid, manner: Manner, mask: &libc::sigset_t, children: libc::sighandler_t) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(keeper) {
        // It was killed before, and sends no signal.
        exit(1);
    }
    if manner == Manner::Background {
        setpgid(None, None)?;
        react(RequestsToEnd::Obey)?;
    }
    // SAFETY: the set is initialized, and ignoring runs no code.
    unsafe {
        if children == libc::SIG_IGN {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
        libc::sigprocmask(libc::SIG_SETMASK, mask, null_mut());
    }
    Ok(())
}

/// Keeps the program until it has ended, and ends as it did.
fn keep(order: &Order, program: Pid, gate: OwnedFd, signals: &OwnedFd, record: Option<&(&Record, File)>) -> ! {
    leave_group_of_starter(order.manner);
    if order.manner == Manner::Background {
        // The program does the same: the group must exist before the first signal to it.
        let _ = setpgid(Some(program), Some(program));
    }
    let group = record.and_then(|(record, _)| record.group.as_ref());
    let (end, stops, signals) = (order.end.as_fd(), order.stops.as_fd(), signals.as_fd());
    // The lifeline takes the place of descriptors that there are not.
    let (folder, file) = record.map_or((end, end), |(record, file)| (record.folder.as_fd(), file.as_fd()));
    let around = group.map_or(end, Group::around);
    let held = programs::held().unwrap_or(end);
    close_all_but([end, stops, signals, gate.as_fd(), folder, file, around, held]);
    drop(gate);
    let &Order { starter, manner, .. } = order;
    let mut keeper = Keeper { program, manner, ended: None, asked: false, starter, end, stops, signals, group };
    loop {
        let mut watched =
            [PollFd::from_borrowed_fd(end, PollFlags::IN), PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        let _ = poll(&mut watched, None);
        if keeper.is_alone() {
            keeper.end_program();
            break;
        }
        keeper.pass_signals_on();
        keeper.observe();
        if keeper.ended.is_some() {
            break;
        }
    }
    let may_stay = keeper.manner == Manner::Foreground && !keeper.asked;
    let is_over = if may_stay {
        keeper.release_descendants();
        true
    } else {
        keeper.kill_descendants()
    };
    if let Some((record, _)) = record.filter(|_| is_over) {
        record.remove();
    }
    end_as(keeper.ended.unwrap_or(libc::SIGKILL))
}

/// Leaves the process group of the starter, which may be killed as a whole. The program has been
/// forked and does not begin before the keeper is ready.
///
/// A process group is orphaned if no member has a parent in another group of the same session: then
/// a terminal does not stop its processes, and when the last such parent ends, the kernel sends
/// SIGHUP to those that are stopped. For a group of its own, the keeper must be such a parent. For
/// the group of the starter it must not, and is in another session.
fn leave_group_of_starter(manner: Manner) {
    // Neither fails, since this process leads no group.
    let _ = match manner {
        Manner::Foreground | Manner::Rank => setsid().map(drop),
        Manner::Background => setpgid(None, None),
    };
}

struct Keeper<'a> {
    program: Pid,
    manner: Manner,
    /// The status of the program once it has ended.
    ended: Option<libc::c_int>,
    /// Whether the program was asked to end.
    asked: bool,
    starter: Pid,
    /// The lifeline.
    end: BorrowedFd<'a>,
    stops: BorrowedFd<'a>,
    /// A descriptor from which signals to the keeper are read.
    signals: BorrowedFd<'a>,
    /// The group of the program, if it has one.
    group: Option<&'a Group>,
}

impl Keeper<'_> {
    /// Whether the starter has ended, or has no more use for the program.
    fn is_alone(&self) -> bool {
        let mut end = [PollFd::from_borrowed_fd(self.end, PollFlags::IN)];
        // The other end never writes to the pipe.
        poll(&mut end, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ended| ended > 0)
    }

    /// Sends a signal to the program, and to its group if that is its own.
    fn signal_program(&self, signal: libc::c_int) {
        if self.ended.is_none() {
            let program = self.program.as_raw_nonzero().get();
            let target = if self.manner == Manner::Background { -program } else { program };
            // SAFETY: the call takes numbers. The program has not been reaped, so its id is valid.
            // A program of another user cannot be signalled by the starter either.
            unsafe { libc::kill(target, signal) };
        }
    }

    /// Passes signals on to the program, unless it is to end. A starter that lets go of the
    /// lifeline continues the keeper, in case it was stopped. If that continued a stopped program,
    /// it could do more before it is asked to end.
    fn pass_signals_on(&mut self) {
        let mut about = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        loop {
            let length = size_of::<libc::signalfd_siginfo>();
            // SAFETY: there is room for one structure, for which zeros are valid as well.
            let (read, about) = unsafe {
                let read = libc::read(self.signals.as_raw_fd(), about.as_mut_ptr().cast(), length);
                (read, about.assume_init_ref())
            };
            if usize::try_from(read) != Ok(length) {
                return;
            }
            let number = about.ssi_signo as libc::c_int;
            if number != libc::SIGCHLD && !self.is_alone() {
                self.asked |= REQUESTS_TO_END.contains(&number);
                self.signal_program(number);
            }
        }
    }

    /// Reaps all children that have ended. Returns whether there are others.
    fn reap(&mut self) -> bool {
        self.reap_and(0, |_| {})
    }

    /// As `reap`, and tells the starter if the program is stopped. Ranks are stopped by SIGSTOP
    /// many times in a second, and their starter need not know.
    fn observe(&mut self) {
        let (stops, starter, manner) = (self.stops, self.starter, self.manner);
        self.reap_and(libc::WUNTRACED, |signal| {
            if manner == Manner::Rank && signal == libc::SIGSTOP {
                return;
            }
            // If nothing reads the pipe, it may be full.
            let _ = rustix::io::write(stops, &[signal as u8]);
            if getppid() == Some(starter) {
                let _ = kill_process(starter, Signal::CHILD);
            }
        });
    }

    fn reap_and(&mut self, options: libc::c_int, stopped: impl Fn(libc::c_int)) -> bool {
        loop {
            let mut status = 0;
            // SAFETY: there is room for the status.
            let child = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | options) };
            if child <= 0 {
                return child == 0;
            }
            if child != self.program.as_raw_nonzero().get() {
                continue;
            }
            if libc::WIFSTOPPED(status) {
                stopped(libc::WSTOPSIG(status));
            } else {
                self.ended = Some(status);
            }
        }
    }

    /// Asks the program to end, and waits until it has ended or the grace period is over.
    fn end_program(&mut self) {
        self.asked = true;
        #[cfg(rowlock_canary = "a-keeper-lets-go")]
        exit(0);
        self.signal_program(libc::SIGTERM);
        self.signal_program(libc::SIGCONT);
        let deadline = now() + GRACE;
        while self.ended.is_none() && now() < deadline {
            self.sleep(deadline - now());
            self.reap();
        }
        if self.ended.is_none() {
            self.signal_program(libc::SIGKILL);
        }
    }

    /// Kills and reaps all descendants, and removes the group. They may create more meanwhile, so
    /// it repeats until there are none. Returns whether that is so.
    fn kill_descendants(&mut self) -> bool {
        let begun = now();
        let mut deadline = KillDeadline::new(begun);
        let mut round = begun;
        while self.reap() || !self.group.is_none_or(Group::remove) {
            self.group.inspect(|group| group.kill());
            // If the starter has ended, nothing waits for this process.
            if kill_children() || getppid() != Some(self.starter) {
                deadline.extend(now());
            }
            if deadline.has_passed(round) {
                return false;
            }
            // Each round reads all of `/proc`. The end of a child ends the sleep.
            self.sleep(ROUND.max((now() - begun) / 50));
            round = now();
        }
        true
    }

    /// Removes the group, and lets its processes stay, as members of the group around it. If they
    /// use groups that the program has created in the group, it stays.
    fn release_descendants(&mut self) {
        let deadline = now() + GRACE;
        while !self.group.is_none_or(Group::remove) && now() < deadline {
            self.group.inspect(|group| group.release());
            self.sleep(ROUND);
        }
    }

    /// Waits for a signal, such as that of the end of a child, for at most this time, and discards
    /// it.
    fn sleep(&mut self, nanos: i64) {
        let limit = Timespec { tv_sec: nanos.max(0) / NANOS, tv_nsec: nanos.max(0) % NANOS };
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.signals, PollFlags::IN)], Some(&limit));
        let mut about = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let length = size_of::<libc::signalfd_siginfo>();
        // SAFETY: there is room for one structure, which is not used.
        while unsafe { libc::read(self.signals.as_raw_fd(), about.as_mut_ptr().cast(), length) } > 0 {}
    }
}

/// Closes all descriptors but these, so that the ends of pipes depend on the program only.
pub(super) fn close_all_but<const COUNT: usize>(kept: [BorrowedFd<'_>; COUNT]) {
    let mut kept = kept.map(|descriptor| descriptor.as_raw_fd());
    kept.sort_unstable();
    let mut first = 0;
    for number in kept {
        close(first, number - 1);
        first = number + 1;
    }
    close(first, RawFd::MAX);
}

/// Closes the descriptors from the first to the last one. If it is smaller, it closes none.
fn close(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: nothing else in this process uses these descriptors.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) < 0 {
            // Linux before 5.9.
            let most = libc::sysconf(libc::_SC_OPEN_MAX) as libc::c_int;
            (first..=last.min(most)).for_each(|number| {
                libc::close(number);
            });
        }
    }
}

/// A descriptor from which the signals to this process are read. All of them are blocked.
fn signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialized, and the descriptor, if there is one, is new.
    unsafe {
        match libc::signalfd(-1, every_signal().as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) {
            ..0 => Err(io::Error::last_os_error()),
            signals => Ok(OwnedFd::from_raw_fd(signals)),
        }
    }
}

/// Kills all children of this process. Without a `/proc` that shows them, it kills none. Returns
/// whether one of them needs only a CPU to end.
#[expect(clippy::disallowed_methods, reason = "it only reads")]
fn kill_children() -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(proc) = openat(CWD, c"/proc", flags, Mode::empty()) else { return false };
    let mut waits_for_cpu = false;
    let own = getpid().as_raw_pid().unsigned_abs();
    let stat = |path: &CStr| read_at(proc.as_fd(), path, &mut [0; 1024]).and_then(Stat::parse);
    // It may show the processes of another namespace, with other ids.
    let is_ours = stat(c"self/stat").is_some_and(|stat| stat.pid == own);
    let mut entries = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&proc, &mut entries);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        let mut path = [0_u8; 32];
        let parts = name.iter().chain(b"/stat");
        if !is_ours || !name.iter().all(u8::is_ascii_digit) || name.len() + 6 > path.len() {
            continue;
        }
        path.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        let Ok(path) = CStr::from_bytes_until_nul(&path) else { continue };
        if let Some(child) = stat(path).filter(|stat| stat.parent == own) {
            let pid = Pid::from_raw(child.pid.cast_signed());
            // A process of another user cannot be killed. It is found again in the next round.
            let is_killed = pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok());
            waits_for_cpu |= is_killed && child.waits_for_cpu();
        }
    }
    waits_for_cpu
}

/// The beginning of a file.
#[expect(clippy::disallowed_methods, reason = "it only reads")]
pub(super) fn read_at<'a>(folder: BorrowedFd<'_>, path: &CStr, text: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, &mut *text).ok()?;
    text.get(..length)
}

/// Ends this process as the program ended, but without a second core dump.
fn end_as(status: libc::c_int) -> ! {
    if libc::WIFEXITED(status) {
        exit(libc::WEXITSTATUS(status));
    }
    let signal = libc::WTERMSIG(status);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // SAFETY: the default disposition runs no code, and the set is initialized.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, every_signal().as_ptr(), null_mut());
    }
    exit(128_i32.saturating_add(signal))
}

pub(super) fn every_signal() -> MaybeUninit<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: there is room for a set, which is initialized by filling it.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    set
}

/// The time of the monotonic clock in nanoseconds.
pub(super) fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * NANOS + now.tv_nsec
}

pub(super) fn exit(code: libc::c_int) -> ! {
    // SAFETY: it is async-signal-safe and runs no other code of this process.
    unsafe { libc::_exit(code) }
}
