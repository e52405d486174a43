//! The supervision of running ranks: signals are forwarded, stops of the terminal stop the job, and
//! the first that fails ends the others.
//!
//! The ranks are in the process group of this process. So a signal of a terminal reaches them as
//! well and is not forwarded, but one that another process sends to this one is. If it is sent to
//! the whole group, they get it twice, as with `rowlock exec`.
//!
//! # Job control
//!
//! The job stops if a terminal or another process stops this process by SIGTSTP, SIGTTIN or
//! SIGTTOU, or if one of them stops a rank: an editor, for example, stops by itself when it has
//! restored the terminal. A rank that stops by SIGSTOP does not stop the job, because that is how a
//! job waits for its turn.
//!
//! The listener learns of a stop first, so that it no longer counts on the ranks. This process
//! stops last, when the ranks have, because a shell then takes the terminal. But it does not wait
//! long: a rank may ignore the signal. When it continues, so do the ranks, and then the listener
//! decides whether it is their turn. If the terminal stops the job at just that moment, the SIGCONT
//! for a rank may take its stop back. So a rank that has not stopped in time is stopped again.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::Signal as Number;
use sys::alarm::Alarm;
use sys::signals::{STOPS, Signal, is_ignored, send, take};

use super::{Failures, Ranks};

/// The exit code of a job that is ended because of its time limit, as with `timeout`.
pub const TIMED_OUT: u8 = 124;

/// How long this process waits for ranks to stop before it stops as well.
const STOP_TIME: Duration = Duration::from_millis(200);

/// The signals that ask a process to end.
pub(super) const REQUESTS_TO_END: [i32; 4] =
    [Number::TERM.as_raw(), Number::INT.as_raw(), Number::HUP.as_raw(), Number::QUIT.as_raw()];

/// Learns when the job is stopped by other causes than its turn.
pub trait Listener {
    /// The job is about to stop.
    fn suspend(&mut self);
    /// The job was continued after [`Listener::suspend`]: all its ranks have got SIGCONT.
    fn resume(&mut self);
    /// All ranks are about to be asked to end, and must be able to react.
    fn end(&mut self);
    /// Whether the job is stopped by SIGSTOP now because it is the turn of another.
    fn is_stopped_by_signals(&self) -> bool;
}

/// For a job that takes no turns.
impl Listener for () {
    fn suspend(&mut self) {}
    fn resume(&mut self) {}
    fn end(&mut self) {}
    fn is_stopped_by_signals(&self) -> bool {
        false
    }
}

/// How a job has ended.
#[derive(Debug)]
pub struct Ended {
    /// The status of the rank that failed first, or of a success; exit code [`TIMED_OUT`] if the
    /// time limit has passed.
    pub status: ExitStatus,
    /// The rank that failed first: ended by a signal or with an exit code other than 0. Of those
    /// that failed at the same time, the lowest.
    pub first_failed: Option<u32>,
    /// Whether the job was ended because of its time limit.
    pub is_timed_out: bool,
    /// Whether a signal had asked the job to end before.
    pub is_asked: bool,
    /// The status of each rank.
    pub ranks: Vec<ExitStatus>,
    /// The time from the start of the first rank to the end of the last.
    pub elapsed: Duration,
    /// Why output could not be relayed.
    pub lost_output: Option<io::Error>,
    /// A clause about the failure of that rank if its exit code does not tell it.
    pub failure: Option<String>,
}

impl Ended {
    /// The exit code of the job: 128 plus the number for a signal.
    pub fn exit_code(&self) -> u8 {
        let code = self.status.code().or_else(|| Some(128 + self.status.signal()?));
        code.and_then(|code| code.try_into().ok()).unwrap_or(1)
    }

    /// A sentence about the cause of the end if it is neither the end of all ranks by themselves
    /// nor a signal to the job.
    pub fn cause(&self) -> Option<String> {
        if self.is_timed_out {
            return Some("the time limit has passed, so the job was ended".to_owned());
        }
        if let Some(failure) = &self.failure {
            return Some(format!("{failure}, so the job has failed"));
        }
        let failed = self.first_failed.filter(|_| self.ranks.len() > 1 && !self.is_asked)?;
        Some(format!("rank {failed} has failed ({}), so the job was ended", self.status))
    }
}

impl Ranks {
    /// Supervises the ranks until all have ended, and the reporter of failures has. Call it on the
    /// thread that has started them.
    ///
    /// # Errors
    /// If ranks can no longer be observed. Then they are ended.
    pub fn supervise(
        mut self,
        listener: &mut impl Listener,
        mut failures: Failures,
        time_limit: Option<Duration>,
    ) -> io::Result<Ended> {
        let deadline = time_limit.and_then(|limit| self.started.checked_add(limit));
        // A signal that is ignored, as under `nohup`, asks for nothing. Ranks may yet catch it.
        let requests = REQUESTS_TO_END.map(|number| Some(number).filter(|&number| !is_ignored(number)));
        let (mut first_failed, mut is_timed_out, mut is_asked) = (None, false, false);
        loop {
            // In this order: a report about a rank that has ended is not missed.
            let have_reported = failures.receive();
            let failed = self.reap(&mut failures)?;
            let failed = failed.or_else(|| Some(failures.first(None, |rank| self.has_succeeded(rank))?.rank));
            if let Some(failed) = failed.filter(|_| first_failed.is_none() && !is_timed_out) {
                first_failed = Some(failed);
                listener.end();
                self.end();
            }
            let have_ended = self.running().next().is_none();
            if have_ended {
                self.relay.end();
                failures.end();
                if self.relay.has_ended() && have_reported {
                    break;
                }
            }
            let signal = match deadline.filter(|_| !is_timed_out) {
                Some(deadline) => self.signals.next_until(deadline)?,
                None => Some(self.signals.next()?),
            };
            let is_request = signal.is_some_and(|signal| requests.contains(&Some(signal.number)));
            is_asked |= is_request;
            match signal {
                // Nothing takes the rest of the output.
                None if have_ended => break,
                Some(_) if have_ended && is_request => break,
                None => {
                    is_timed_out = true;
                    listener.end();
                    self.end();
                }
                Some(signal) => self.handle(signal, deadline.filter(|_| !is_timed_out), listener)?,
            }
        }
        let elapsed = self.started.elapsed();
        let failure = first_failed.and_then(|rank| failures.first(Some(rank), |rank| self.has_succeeded(rank)));
        let ranks: Vec<ExitStatus> = self.ranks.iter().filter_map(|rank| rank.ended).collect();
        let failed = first_failed.and_then(|rank| ranks.get(rank as usize).copied());
        let with_code = |code: u8| ExitStatus::from_raw(i32::from(code) << 8);
        let status = match failure {
            _ if is_timed_out => with_code(TIMED_OUT),
            Some(failure) => with_code(failure.code),
            None => failed.unwrap_or_default(),
        };
        let (failure, lost_output) = (failure.map(|failure| failure.cause.clone()), self.relay.take_lost());
        Ok(Ended { status, first_failed, is_timed_out, is_asked, ranks, elapsed, lost_output, failure })
    }

    /// Notes which ranks have ended. Returns the first among them that has failed.
    fn reap(&mut self, failures: &mut Failures) -> io::Result<Option<u32>> {
        let mut failed = None;
        for (number, rank) in (0..).zip(&mut self.ranks).filter(|(_, rank)| rank.ended.is_none()) {
            rank.ended = rank.process.process().try_wait()?;
            let Some(status) = rank.ended else { continue };
            failures.note_end(number);
            if !status.success() {
                failed.get_or_insert(number);
            }
        }
        Ok(failed)
    }

    /// Whether a rank has ended with exit code 0.
    fn has_succeeded(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).and_then(|rank| rank.ended).is_some_and(|ended| ended.success())
    }

    fn running(&self) -> impl Iterator<Item = &super::Rank> {
        self.ranks.iter().filter(|rank| rank.ended.is_none())
    }

    /// Sends a signal to all ranks.
    fn send(&self, number: i32) {
        for rank in self.running() {
            // Its keeper has not been reaped, so the id is valid.
            let _ = send(rank.process.id(), number);
        }
    }

    /// Sends a signal to all ranks that have not received it already.
    fn forward(&self, signal: Signal) {
        // The keepers of ranks tell their ends by SIGCHLD.
        if signal.should_forward() && signal.number != Number::CHILD.as_raw() {
            self.send(signal.number);
        }
    }

    fn handle(&mut self, signal: Signal, deadline: Option<Instant>, listener: &mut impl Listener) -> io::Result<()> {
        match signal.number {
            number if number == Number::CHILD.as_raw() => match self.note_stops() {
                Some(number) => self.suspend(Signal { number, from_kernel: false }, deadline, listener),
                None => Ok(()),
            },
            number if STOPS.contains(&number) => self.suspend(signal, deadline, listener),
            number if number == Number::CONT.as_raw() => {
                self.continue_in_turn(listener);
                Ok(())
            }
            _ => {
                self.forward(signal);
                Ok(())
            }
        }
    }

    /// Notes which ranks have stopped since the last call. Returns the first of the signals that
    /// have done so and that stop the job.
    fn note_stops(&mut self) -> Option<i32> {
        let mut first = None;
        for rank in &mut self.ranks {
            while let Some(number) = rank.process.next_stop() {
                if STOPS.contains(&number) {
                    rank.has_stopped = true;
                    first.get_or_insert(number);
                }
            }
        }
        first
    }

    /// Continues the ranks unless they wait for their turn.
    fn continue_in_turn(&mut self, listener: &impl Listener) {
        if !listener.is_stopped_by_signals() {
            self.continue_ranks();
        }
    }

    fn continue_ranks(&mut self) {
        self.send(Number::CONT.as_raw());
        self.note_stops();
        self.ranks.iter_mut().for_each(|rank| rank.has_stopped = false);
    }

    /// Stops the job because of a signal, and returns when it has been continued, or at the
    /// deadline.
    fn suspend(&mut self, signal: Signal, deadline: Option<Instant>, listener: &mut impl Listener) -> io::Result<()> {
        let was_stopped = listener.is_stopped_by_signals();
        listener.suspend();
        // A rank that has stopped already forgets it when it continues.
        self.forward(signal);
        if was_stopped || self.wait_for_stops(signal.number)? {
            // Without it, the time limit would not end the job as long as this process is stopped.
            let _alarm = deadline.map(|deadline| Alarm::new(Number::CONT.as_raw(), deadline).ok());
            self.signals.act(signal.number)?;
            // The one that has continued this process: ranks may soon be stopped again.
            take(Number::CONT.as_raw())?;
        }
        self.continue_ranks();
        listener.resume();
        Ok(())
    }

    /// Waits until all ranks have stopped by this signal, but not long. Returns false if the job
    /// was continued meanwhile.
    fn wait_for_stops(&mut self, number: i32) -> io::Result<bool> {
        let deadline = Instant::now() + STOP_TIME;
        loop {
            self.note_stops();
            if self.running().all(|rank| rank.has_stopped) {
                return Ok(true);
            }
            match self.signals.next_until(deadline)? {
                None => {
                    // A signal that is still pending does not arrive twice.
                    for rank in self.running().filter(|rank| !rank.has_stopped) {
                        let _ = send(rank.process.id(), number);
                    }
                    return Ok(true);
                }
                Some(signal) if signal.number == Number::CONT.as_raw() => return Ok(false),
                Some(signal) if STOPS.contains(&signal.number) => {}
                Some(signal) => self.forward(signal),
            }
        }
    }
}
