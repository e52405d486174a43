//! One process, which is stopped and continued without mistaking it for another.
//!
//! # The steps
//!
//! Each switcher reads the mark, then the status of the process, and then changes the mark by
//! compare-and-exchange, so that it acts only on what it has seen. Only after that does it send a
//! signal:
//!
//! * Stop: set the mark, send SIGSTOP, read the mark again. If it is cleared or about to be,
//!   another switcher may have sent SIGCONT before; then take the SIGSTOP back by another SIGCONT.
//! * Resume: announce it in the mark, send SIGCONT, clear the mark.
//!
//! So a process that is stopped by us is marked whenever a switcher dies between two steps, and the
//! next one finishes its work.
//!
//! # The stops of others
//!
//! A stop signal that arrives while the process is stopped by us is pending, and SIGCONT would
//! discard it. If SIGSTOP is pending, the process is left stopped and the mark is cleared: from
//! then on it is the user's stop. The other stop signals may be caught, or have no effect in an
//! orphaned process group, where the process would stay stopped forever. So they are sent again
//! after SIGCONT, and act as if they had arrived then.
//!
//! SIGSTOP that is pending while the process is *not* stopped is our own: the process has had no
//! CPU yet, or is in an uninterruptible call. Then SIGCONT takes it back.
//!
//! A process that a user continues during its stop runs until the next boundary, which stops it
//! again. One that a debugger attaches to during its stop keeps its mark, and is continued when the
//! debugger is gone. It may leave the SIGSTOP by which it has attached: that is pending for a
//! thread and not for the process, and no user's stop.
//!
//! # The races that remain
//!
//! A process may be taken for stopped by a user, although it is not, or the reverse:
//!
//! 1. If the mark is set but the process is not stopped, a second SIGSTOP is sent, which can be
//!    pending after the first one has acted. The mark says so (`REPEATED`), and then a pending
//!    SIGSTOP is taken for ours: one that a user sends during the same stop is lost.
//! 2. A user's SIGSTOP that arrives between ours and its effect is the same pending bit as ours,
//!    and is lost. If it arrives before ours, it is seen. One that acts between our look and our
//!    signal makes ours the pending one: the process stays stopped, as the user wants.
//! 3. If a user continues a process and stops it again during one stop of ours, that stop is taken
//!    for ours.
//! 4. A switcher that is delayed before its SIGCONT may undo a user's stop that came after another
//!    switcher had continued the process.
//!
//! Or something is lost if a switcher is killed between two system calls: between SIGCONT and a
//! terminal stop that is sent again, the latter; before it takes a late SIGSTOP back, the process
//! remains stopped.
//!
//! A switcher that is delayed before it looks acts as if its turn were now. It must check its claim
//! before; the next boundary corrects it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use rustix::io::{Errno, pread};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sys::identity::{Identity, Stat};

use super::mark;
use super::status::Status;

/// How much of `/proc/PID/status` has the fields that matter, unless the user has many groups.
const MOST_STATUS: usize = 4 << 10;
/// As above, for a user with 65,536 groups, which is the most.
const LARGEST_STATUS: usize = 1 << 20;

/// The stop signals that a process may catch or ignore.
const TERMINAL_STOPS: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// Sends a signal of this number to a process, and to no other one that has got its id.
///
/// # Errors
/// If the process has ended or may not be signalled, or if the signal has no name.
pub fn signal(identity: Identity, number: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(number).ok_or(Errno::INVAL)?;
    let process = Process::try_open(identity)?;
    Ok(pidfd_send_signal(&process.handle, signal)?)
}

/// Whether a process of this user, without privileges, may signal the one with this id.
pub(crate) fn may_be_signalled(pid: u32, user: u32) -> bool {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok().and_then(|text| Status::parse(&text));
    status.is_some_and(|status| status.may_be_signalled_by(user))
}

/// The result of stopping or continuing a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it should be, or another switcher sees to it.
    Done,
    /// It has ended.
    Ended,
    /// It is stopped by another than us, and remains so.
    Foreign,
    /// It is traced, and was left alone.
    Traced,
    /// It may not be signalled: it runs as another user.
    Forbidden,
}

/// A process with open descriptors, which refer to it even if its id is used again.
///
/// It has two descriptors. It allocates nothing after it was opened, unless the user has hundreds
/// of groups.
#[derive(Debug)]
pub struct Process {
    handle: OwnedFd,
    status: File,
}

/// The look of a switcher at a process that it resumes.
pub(super) struct Look {
    before: u32,
    status: Status,
}

impl Process {
    /// Opens a process. Returns `None` if it has ended, if its id is used by another, or if it
    /// cannot be opened.
    pub fn open(identity: Identity) -> Option<Process> {
        Process::try_open(identity).ok()
    }

    /// As `open`. Fails with ESRCH if it has ended or is another.
    pub(super) fn try_open(identity: Identity) -> io::Result<Process> {
        let pid = i32::try_from(identity.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        let status = File::open(format!("/proc/{}/status", identity.pid))?;
        // The process existed before, and if it does now, its id was its own all the time.
        let now = Stat::try_of(identity.pid)?;
        let is_same = |stat: Stat| stat.started == identity.started && !stat.has_ended();
        if now.is_some_and(is_same) { Ok(Process { handle, status }) } else { Err(Errno::SRCH.into()) }
    }

    /// Stops the process unless it is stopped, and marks it as stopped by us. It can be repeated.
    ///
    /// It does not wait until the process has stopped.
    pub fn stop(&self, mark: &AtomicU32) -> Outcome {
        self.stop_as(None, mark)
    }

    /// As `stop`, but leaves a process alone that this user may not signal: root stops processes
    /// for others, and they may have started programs with more rights.
    ///
    /// One that gets such rights between the look at it and the signal is stopped until the next
    /// boundary at which its job runs.
    pub fn stop_as(&self, user: Option<u32>, mark: &AtomicU32) -> Outcome {
        self.try_stop(user, mark).unwrap_or_else(|outcome| outcome)
    }

    fn try_stop(&self, user: Option<u32>, mark: &AtomicU32) -> Result<Outcome, Outcome> {
        let before = mark.load(SeqCst);
        let status = self.status()?;
        if user.is_some_and(|user| !status.may_be_signalled_by(user)) {
            return Err(Outcome::Forbidden);
        }
        let is_stopped = status.is_stopped() || status.is_pending(Signal::STOP);
        let marked = if mark::stays(before) {
            // If it is not stopped, it was continued by a user, its switcher has died, or the
            // signal has not acted yet.
            if is_stopped { before } else { mark::repeated(before) }
        } else if mark::is_ours(before) {
            // The one that is about to continue it has died, or is late.
            mark::repeated(mark::stopped(mark::over(before)))
        } else if is_stopped {
            // Another switcher may have stopped it meanwhile.
            return Ok(if mark.load(SeqCst) == before { Outcome::Foreign } else { Outcome::Done });
        } else {
            mark::stopped(before)
        };
        // If it fails, another switcher was here.
        if mark.compare_exchange(before, marked, SeqCst, SeqCst).is_ok() && !is_stopped {
            self.send(Signal::STOP).inspect_err(|_| {
                let _ = mark.compare_exchange(marked, before, SeqCst, SeqCst);
            })?;
            self.take_back_late_stop(mark, marked)?;
        }
        Ok(Outcome::Done)
    }

    /// After SIGSTOP: if this switcher was delayed before, the stop may be over by now.
    fn take_back_late_stop(&self, mark: &AtomicU32, marked: u32) -> Result<(), Outcome> {
        loop {
            let now = mark.load(SeqCst);
            if !mark::stays(now) {
                return self.send(Signal::CONT);
            }
            // If it was stopped again meanwhile, the signal may be pending.
            let is_same = mark::stops(now) == mark::stops(marked);
            if is_same || mark.compare_exchange(now, mark::repeated(now), SeqCst, SeqCst).is_ok() {
                return Ok(());
            }
        }
    }

    /// Continues the process if it is stopped by us, and clears the mark. It can be repeated.
    ///
    /// If it was not stopped by us, it looks no further, and `Done` says nothing about its state.
    pub fn resume(&self, mark: &AtomicU32) -> Outcome {
        loop {
            match self.look(mark).and_then(|look| self.resume_after(&look, mark)) {
                Ok(None) => {}
                Ok(Some(outcome)) | Err(outcome) => return outcome,
            }
        }
    }

    /// The first half of `resume`, which takes most of its time and changes nothing.
    pub(super) fn look(&self, mark: &AtomicU32) -> Result<Look, Outcome> {
        let before = mark.load(SeqCst);
        if !mark::is_ours(before) {
            return Err(Outcome::Done);
        }
        Ok(Look { before, status: self.status()? })
    }

    /// The second half of `resume`. Returns `None` if another switcher was here meanwhile.
    pub(super) fn resume_after(
        &self,
        &Look { before, status }: &Look,
        mark: &AtomicU32,
    ) -> Result<Option<Outcome>, Outcome> {
        let change = |from, to| mark.compare_exchange(from, to, SeqCst, SeqCst).is_ok();
        if is_foreign(&status, before) {
            return Ok(change(before, mark::over(before)).then_some(Outcome::Foreign));
        }
        let resuming = mark::resuming(before);
        if !change(before, resuming) {
            return Ok(None);
        }
        self.send(Signal::CONT).inspect_err(|_| {
            change(resuming, before);
        })?;
        for signal in TERMINAL_STOPS.into_iter().filter(|&signal| status.is_pending(signal)) {
            self.send(signal)?;
        }
        // If it fails, another switcher has cleared it, or stops the process again.
        let _ = change(resuming, mark::over(resuming));
        Ok(Some(Outcome::Done))
    }

    /// The status of a process that may be signalled.
    fn status(&self) -> Result<Status, Outcome> {
        let read = |text: &mut [u8]| {
            let length = pread(&self.status, &mut *text, 0).ok()?;
            Status::parse(text.get(..length)?)
        };
        // It cannot be read if the process was reaped.
        let status = read(&mut [0; MOST_STATUS]).or_else(|| read(&mut vec![0; LARGEST_STATUS]));
        match status.filter(|status| !status.has_ended()) {
            None => Err(Outcome::Ended),
            Some(status) if status.is_traced() => Err(Outcome::Traced),
            Some(status) => Ok(status),
        }
    }

    fn send(&self, signal: Signal) -> Result<(), Outcome> {
        pidfd_send_signal(&self.handle, signal)
            .map_err(|why| if why == Errno::SRCH { Outcome::Ended } else { Outcome::Forbidden })
    }
}

/// Whether a stop of this process, which has this mark of ours, is now that of another.
fn is_foreign(status: &Status, mark: u32) -> bool {
    status.is_stopped() && status.is_pending_for_process(Signal::STOP) && !mark::is_repeated(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_stop_is_foreign_if_ours_has_acted_and_was_sent_once() {
        let is_foreign = |state, pending, mark| {
            let text = format!("State:\t{state}\nTracerPid:\t0\nThreads:\t1\nSigPnd:\t0\nShdPnd:\t{pending}\n");
            is_foreign(&Status::parse(text.as_bytes()).unwrap(), mark)
        };
        let ours = mark::stopped(0);
        assert!(is_foreign('T', "40000", ours));
        assert!(!is_foreign('T', "0", ours));
        assert!(!is_foreign('T', "80000", ours), "another stop signal");
        assert!(!is_foreign('D', "40000", ours), "it has not acted");
        assert!(!is_foreign('T', "40000", mark::repeated(ours)));
    }

    #[test]
    fn a_process_of_another_user_is_not_stopped_for_a_user() {
        let sleep = testing::Child::start(testing::command("sleep").arg("1000"));
        let process = Process::open(crate::processes::tests::identity(sleep.id())).unwrap();
        let (own, mark) = (rustix::process::getuid().as_raw(), AtomicU32::new(0));
        assert_eq!(process.stop_as(Some(own + 1), &mark), Outcome::Forbidden);
        assert_eq!(mark.load(SeqCst), 0);
        assert_eq!(process.stop_as(Some(own), &mark), Outcome::Done);
        crate::processes::tests::until(|| crate::processes::tests::state(sleep.id()) == b'T');
        process.resume(&mark);
    }

    #[test]
    fn a_switcher_that_was_delayed_for_a_whole_stop_takes_its_signal_back() {
        let sleep = testing::Child::start(testing::command("sleep").arg("1000"));
        let process = Process::open(crate::processes::tests::identity(sleep.id())).unwrap();
        let (is_stopped, ours) = (|| crate::processes::tests::state(sleep.id()) == b'T', mark::stopped(0));
        let delayed = |now: u32| {
            let mark = AtomicU32::new(now);
            process.send(Signal::STOP).unwrap();
            crate::processes::tests::until(is_stopped);
            process.take_back_late_stop(&mark, ours).unwrap();
            mark.into_inner()
        };
        assert_eq!(delayed(ours), ours);
        assert!(is_stopped());
        let next = mark::stopped(mark::over(ours));
        assert_eq!(delayed(next), mark::repeated(next));
        assert!(is_stopped());
        // It is over, or SIGCONT was sent before.
        for now in [mark::over(ours), mark::resuming(ours), mark::resuming(next)] {
            assert_eq!(delayed(now), now);
            assert!(!is_stopped());
        }
    }
}
