//! Containment: no program that this process starts outlives it, with all that the program starts.
//!
//! A program may start processes that detach from it, as daemons do, and a killed process cannot
//! end anything any more. So each contained program has a *keeper*: a process between this one and
//! the program, which adopts all orphans among the program's descendants. The keeper holds the
//! reading end of a pipe whose writing end only this process has, the *lifeline*. When this process
//! ends, however that happens, or drops the lifeline, the pipe ends. Then the keeper asks the
//! program to end (SIGTERM), and after a grace period kills all of its descendants.
//!
//! The keeper is a fork of this process that executes no program. So it works in any program that
//! uses this module, and starting it takes little time.
//!
//! To this process, the keeper takes the place of the program: a signal to it is passed on, and it
//! ends as the program ended, with the same code or by the same signal. Its resource usage includes
//! that of the program and of its descendants. Only if the program stops, the keeper does not: it
//! could not notice the end of this process. It tells this process instead.
//!
//! If both are killed, the kernel kills the program, and the next start ends what the program has
//! started (`record`). The keeper has another name, so `pkill rowlock` does not reach it.
//!
//! Programs of one job may have a control group in common (`job_group`), by which they are frozen.
//!
//! Where that is allowed, the program has a control group (`group`) of its own. It cannot replace
//! the keeper: this process often may not create one, and another process has to remove it. The
//! processes of a PID namespace end with its first one, but it takes privileges, and the program
//! could neither see nor signal others.

mod group;
mod job_group;
mod keeper;
mod kill_deadline;
mod programs;
mod record;
mod successor;

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open};

pub use self::job_group::{JobGroup, control_of_job};
use self::keeper::Order;
use self::record::Record;
pub use self::successor::Successor;

/// How a contained program relates to the process that starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As a shell would start it: in the process group of its starter, with the same ignored
    /// signals. Processes that it leaves running when it ends by itself stay. If its starter has
    /// passed a request to end on to it, they end as well.
    Foreground,
    /// In the process group of its starter as well, but everything that it leaves running is killed
    /// when it ends.
    Rank,
    /// In its own process group. It obeys requests to end, and everything that it leaves
    /// running is killed when it ends.
    Background,
}

/// The lifeline of a program. When it is dropped, the program ends with all of its descendants.
#[derive(Debug)]
pub struct Lifeline {
    _held: OwnedFd,
    /// From which the signals are read that have stopped the program.
    stops: OwnedFd,
    /// The name of the record, if there is one.
    record: Option<CString>,
}

/// Makes the child of `command` a keeper that starts the program and contains it as long as the
/// lifeline exists.
///
/// Call it before any other change to what the child does between fork and exec, since those are
/// for the program and not for the keeper. The command must have no process group.
///
/// # Errors
/// If no pipe can be created.
pub fn contain(command: &mut Command, manner: Manner) -> io::Result<Lifeline> {
    contain_in(command, manner, &[])
}

/// As [`contain`], and lets the program enter these groups of its job, at most one in each
/// hierarchy.
///
/// # Errors
/// If no pipe can be created.
pub fn contain_in(command: &mut Command, manner: Manner, groups: &[&JobGroup]) -> io::Result<Lifeline> {
    let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
    let ((end, _held), (stops, told)) = (pipe_with(flags)?, pipe_with(flags)?);
    let record = Record::mark(command, groups.iter().copied().find(|group| group.is_of_version_2()));
    let name = record.as_ref().map(|record| record.name.clone());
    let entrances = groups.iter().map(|group| group.entrance()).collect();
    let order = Order { end, stops: told, starter: getpid(), manner, record, entrances };
    // SAFETY: between fork and exec only async-signal-safe functions may run. `divide` makes system
    // calls and uses only its own memory: no lock, no allocation.
    unsafe { command.pre_exec(move || keeper::divide(&order)) };
    Ok(Lifeline { _held, stops, record: name })
}

/// A running program with its lifeline.
#[derive(Debug)]
pub struct Contained {
    keeper: Child,
    /// `None` once the program was told to end.
    lifeline: Option<Lifeline>,
    /// The name of the record of the keeper, if there is one.
    record: Option<CString>,
}

impl Contained {
    /// The child of a command that was [contained](contain) with this lifeline.
    pub fn new(keeper: Child, mut lifeline: Lifeline) -> Contained {
        let record = lifeline.record.take();
        Contained { keeper, lifeline: Some(lifeline), record }
    }

    /// Starts the child of a command.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command, manner: Manner) -> io::Result<Contained> {
        let lifeline = contain(command, manner)?;
        Ok(Contained::new(command.spawn()?, lifeline))
    }

    /// The process to wait for and to signal, in place of the program.
    pub fn process(&mut self) -> &mut Child {
        &mut self.keeper
    }

    /// The id of that process.
    pub fn id(&self) -> Pid {
        Pid::from_child(&self.keeper)
    }

    /// Waits until the program has ended, for at most this time. Returns `None` if it has not.
    ///
    /// # Errors
    /// If it cannot be observed.
    pub fn wait_for(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        if let Some(status) = self.keeper.try_wait()? {
            return Ok(Some(status));
        }
        let end = pidfd_open(self.id(), PidfdFlags::empty())?;
        match poll(&mut [PollFd::new(&end, PollFlags::IN)], Timespec::try_from(limit).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => self.keeper.try_wait(),
            Err(why) => Err(why.into()),
        }
    }

    /// The next signal that has stopped the program. `None` if it has not stopped since the last
    /// call. This process gets a SIGCHLD for each. If the program is a [`Manner::Rank`], SIGSTOP is
    /// not among them.
    pub fn next_stop(&self) -> Option<i32> {
        let mut signal = [0];
        let read = rustix::io::read(&self.lifeline.as_ref()?.stops, &mut signal);
        read.is_ok_and(|length| length == 1).then_some(signal[0].into())
    }

    /// Tells the program to end with all of its descendants, and does not wait for that.
    pub fn end(&mut self) {
        if self.lifeline.take().is_some() && matches!(self.keeper.try_wait(), Ok(None)) {
            // The program may have stopped its keeper. Its id is valid: it has not been waited for.
            let _ = kill_process(self.id(), Signal::CONT);
        }
    }
}

impl Drop for Contained {
    /// Ends the program and waits for its end.
    fn drop(&mut self) {
        self.end();
        let ended = self.keeper.wait();
        if ended.is_ok_and(|status| status.signal() == Some(Signal::KILL.as_raw())) {
            // It was killed, or its program was.
            record::end_abandoned(self.record.as_deref());
        }
    }
}

#[cfg(test)]
mod tests;
