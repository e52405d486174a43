//! How a job waits in the queue.
//!
//! Only the first one of each user looks at the table whenever a job has ended, and lets itself
//! start. The others sleep until as many jobs have left the queue as were before them, which a
//! shared word counts. So however many there are, a change of the table wakes one of each user, and
//! a job that leaves the queue the next one, and a few others for a comparison.
//!
//! The words may be too small if a process was killed after its change of the table. And of a
//! killed job the table knows only when another process looks. So each looks from time to time,
//! those at the end of the queue more seldom: the first one after all jobs, and the others after
//! that one.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use policy::{Instant, JobId, Span};
use rustix::process::{Signal, getpid, kill_process};
use sys::signals::{BlockedSignals, is_ignored};

use crate::agent::AgentError;
use crate::memory;
use crate::page::Departures;
use crate::state::{State, StateError};
use crate::table::Table;

/// The time after which a job looks without a reason, for each place in the queue.
const INTERVAL: Span = Span::from_millis(500);
/// The signals that end the wait.
const REQUESTS_TO_END: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// The needs of a job that waits, which its process meets.
pub trait Waiting: Send {
    /// It has to wait. This is called at most once.
    fn begin(&mut self, state: &State, job: JobId);
    /// The memory that is available to the job, in bytes, without regard to the claims of others.
    fn available_memory(&self) -> u64;
}

/// For a job that never has to wait.
impl Waiting for () {
    fn begin(&mut self, _: &State, _: JobId) {}

    fn available_memory(&self) -> u64 {
        u64::MAX
    }
}

/// Blocks the signals that end a wait.
///
/// # Errors
/// [`AgentError::Wait`].
pub(crate) fn catch_requests() -> Result<BlockedSignals, AgentError> {
    let requests = REQUESTS_TO_END.iter().map(|signal| signal.as_raw()).filter(|&number| !is_ignored(number));
    let caught: Vec<i32> = requests.chain([Signal::CHILD.as_raw()]).collect();
    BlockedSignals::new(&caught).map_err(AgentError::Wait)
}

/// Obeys a signal that has asked for the end just before the job could start.
///
/// # Errors
/// [`AgentError::Asked`].
pub(crate) fn obey(signals: &BlockedSignals) -> Result<(), AgentError> {
    while let Some(signal) = signals.next_until(std::time::Instant::now()).map_err(AgentError::Wait)? {
        if signal.number != Signal::CHILD.as_raw() {
            return Err(AgentError::Asked(signal.number));
        }
    }
    Ok(())
}

/// Waits until a job of this process, which must have one thread, has left the queue by starting.
/// The numbers are those of a moment before it was there.
///
/// # Errors
/// [`AgentError::Asked`] if one of these signals has ended the wait. The job may still be in the
/// table.
pub(crate) fn wait(
    table: &Table,
    job: JobId,
    before: Departures,
    signals: &BlockedSignals,
    waiting: &mut dyn Waiting,
) -> Result<(), AgentError> {
    let (has_ended, is_asked) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let wait = || {
            let done = Waiter { table, job, waiting, is_asked: &is_asked, has_begun: false }.run(before);
            has_ended.store(true, SeqCst);
            let _ = kill_process(getpid(), Signal::CHILD);
            done
        };
        let waiter = thread::Builder::new().name("queue".to_owned()).spawn_scoped(scope, wait);
        let waiter = waiter.map_err(AgentError::Thread)?;
        while !has_ended.load(SeqCst) {
            let asked = match signals.next() {
                Ok(signal) if signal.number == Signal::CHILD.as_raw() => continue,
                Ok(signal) => AgentError::Asked(signal.number),
                Err(why) => AgentError::Wait(why),
            };
            is_asked.store(true, SeqCst);
            // This wakes the thread, which finds that the job is gone.
            if table.update_serialized(|state, now| state.release(job, now).map_err(AgentError::from)).is_err() {
                table.page().leave_queue(1, [job]);
                table.page().end(1);
            }
            return Err(asked);
        }
        waiter.join().unwrap_or(Err(AgentError::Wait(std::io::ErrorKind::Other.into())))
    })
}

struct Waiter<'a> {
    table: &'a Table,
    job: JobId,
    waiting: &'a mut dyn Waiting,
    /// Whether a signal has ended the wait.
    is_asked: &'a AtomicBool,
    has_begun: bool,
}

impl Waiter<'_> {
    fn run(&mut self, mut before: Departures) -> Result<(), AgentError> {
        let page = self.table.page();
        let mut state = self.table.known()?;
        while !self.is_asked.load(SeqCst) {
            if !state.job(self.job)?.is_queued() {
                return Ok(());
            }
            let place = state.queue_of(self.job).position(|job| job == self.job).unwrap_or(0) as u32;
            if place == 0 && self.start(&state)? {
                return Ok(());
            }
            if !std::mem::replace(&mut self.has_begun, true) {
                self.waiting.begin(&state, self.job);
            }
            let begun = wait::now();
            if place == 0 {
                page.wait_for_end(before.from_table, begun + INTERVAL);
            } else {
                self.wait_for_place(place, before.from_queue, begun);
            }
            if wait::now().since(begun) >= INTERVAL {
                self.release_ended(&state, place)?;
            }
            before = page.departures();
            state = self.table.state()?;
        }
        Err(StateError::Unknown(self.job).into())
    }

    /// Releases the jobs after which one at this place looks if their agents were killed.
    fn release_ended(&self, state: &State, place: u32) -> Result<(), AgentError> {
        let first = state.queue_of(self.job).next();
        let watched = state.jobs().filter(|&(id, _)| place == 0 || Some(id) == first);
        let ended: Vec<JobId> = watched.filter(|(_, job)| !job.agent().is_alive()).map(|(id, _)| id).collect();
        let release = |state: &mut State, now| ended.iter().try_for_each(|&id| state.release(id, now));
        if ended.is_empty() { Ok(()) } else { self.table.update(|state, now| Ok(release(state, now)?)) }
    }

    /// Sleeps until this many jobs have left the queue since that was counted, or long enough.
    fn wait_for_place(&self, place: u32, counted: u32, begun: Instant) {
        let page = self.table.page();
        loop {
            let left = page.left_queue();
            let ahead = place.saturating_sub(left.wrapping_sub(counted));
            let deadline = begun + Span::from_nanos(INTERVAL.as_nanos() * u64::from(ahead + 1));
            if ahead == 0 || wait::now() >= deadline || self.is_asked.load(SeqCst) {
                return;
            }
            page.wait_for_queue(left, self.job, deadline);
        }
    }

    /// Starts the job if it can start. Returns whether it has.
    fn start(&self, state: &State) -> Result<bool, AgentError> {
        let left = match state.job(self.job)?.memory {
            Some(_) => memory::left(self.claims(state), || self.waiting.available_memory()),
            None => 0,
        };
        let admit = |state: &mut State, now| state.admit(self.job, left, now);
        // Trying costs nothing; a new version wakes all agents.
        Ok(admit(&mut state.clone(), wait::now())?
            && self.table.update(|state, now| admit(state, now).map_err(AgentError::from))?)
    }

    /// The memory that each running job has claimed, and what it uses.
    fn claims(&self, state: &State) -> Vec<(u64, u64)> {
        let running = state.jobs().filter(|(_, job)| !job.is_queued());
        let claims = running.filter_map(|(id, job)| Some((id, job.memory?)));
        // The list of a job that does not exist any more is made anew, and empty.
        claims.map(|(id, claim)| (claim, self.table.processes(id).map_or(0, |list| memory::used(&list)))).collect()
    }
}
