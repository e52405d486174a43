//! The agent of a job: a thread that switches all jobs at boundaries, if no other agent is faster,
//! and tells the others which processes its own job has, and how they behave.
//!
//! `protocol.md` says what happens when an agent is late, is stopped, or ends.

mod adopted;
mod turn_number;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use policy::gang::{Action, Gang};
use policy::layout::Rectangle;
use policy::{Instant, JobId, Span};
use rustix::process::Pid;
use sys::containment::JobGroup;
use sys::identity::Identity;

use self::adopted::Adopted;
use self::turn_number::{first_boundary, turn};
use crate::behaviour::Behaviour;
use crate::claim::{Answer, Claim, Wanted};
use crate::hint::{HintWatch, Look};
use crate::lowering::{CannotLower, LowerMeans};
use crate::mechanisms::{Mechanisms, Obstacle, StopMeans};
use crate::page::Page;
use crate::process_list::{PLACES, ProcessList};
use crate::processes::{Observer, descendants, last_thread, mark};
use crate::queue::{self, Waiting};
use crate::restraint::{Hint, StopChoice};
use crate::state::{Entering, Job, State, StateError};
use crate::switcher::Switcher;
use crate::table::{Table, TableError, VARIABLE};
use crate::turn_use::{TurnEnd, TurnUse};

/// How long a claim may last before another agent takes it over, without the time that
/// the processes take.
const PATIENCE: Span = Span::from_millis(2);
/// How much later than the agent before it an agent wakes after a boundary, so that they do not
/// compete for the CPUs: it mostly finds the switch done.
const STAGGER: Span = Span::from_micros(250);
/// The longest such delay.
const LONGEST_STAGGER: Span = Span::from_millis(2);
/// The longest time for which the agent of the only job sleeps.
const LONGEST_SLEEP: Span = Span::from_millis(1_000);
/// The time between two looks at the agents of other jobs, which may have been killed.
const LIVENESS: Span = Span::from_millis(500);
/// The time between two observations of a job, unless a slice is longer.
const OBSERVATION: Span = Span::from_millis(100);

/// The reason why an agent cannot act.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The table cannot be used.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The table refuses a change.
    #[error(transparent)]
    State(#[from] StateError),
    /// The list of the job's processes cannot be used.
    #[error("cannot share the list of the job's processes: {0}; {VARIABLE} names another folder for it")]
    Processes(#[source] io::Error),
    /// The job cannot wait.
    #[error("the job cannot wait in the queue: {0}")]
    Wait(#[source] io::Error),
    /// A signal has asked it not to wait any longer.
    #[error("signal {0} has ended the wait in the queue")]
    Asked(i32),
    /// The mechanism that was asked for cannot be used.
    #[error(transparent)]
    Mechanism(#[from] Obstacle),
    /// The job cannot be lowered.
    #[error(transparent)]
    Lowering(#[from] CannotLower),
    /// A job cannot be stopped or continued.
    #[error("cannot switch job {job}: {why}")]
    Switch {
        /// The job.
        job: JobId,
        /// The reason.
        #[source]
        why: io::Error,
    },
    /// Nothing would let the program go on if this process were killed.
    #[error("cannot start the process that succeeds the agent: {0}")]
    Succession(#[source] io::Error),
    /// There is no thread.
    #[error("cannot start the agent's thread: {0}")]
    Thread(#[source] io::Error),
}

/// The agent of a job that is in the table.
#[derive(Debug)]
pub struct Agent {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    adopted: Option<Adopted>,
    /// Dropped last, as the next one.
    stop: StopMeans,
    lower: Option<LowerMeans>,
}

/// State of the agent that its thread shares with the process's main thread.
#[derive(Debug)]
struct Shared {
    table: Arc<Table>,
    job: JobId,
    list: ProcessList,
    is_ending: AtomicBool,
    /// The first error of the thread.
    failed: Mutex<Option<AgentError>>,
}

impl Shared {
    /// Lets the processes of the job run, whatever the table says by now.
    fn release(&self, job: &Job) {
        // Others do so as well.
        let _ = Mechanisms::default().run(&job.target(self.job, &self.list));
    }

    /// Keeps an error if it is the first one. A job that leaves the table may be gone from it
    /// already, and the change that removes it reports what is wrong with the table.
    fn note(&self, why: AgentError) {
        if self.is_ending.load(SeqCst) {
            return;
        }
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

impl Agent {
    /// Enters a job into a table. What it asks for may depend on the jobs that are there. It is
    /// stopped by this mechanism, or by the best one. Blocks as long as it is in the queue. Then
    /// this process must have one thread.
    ///
    /// # Errors
    /// [`AgentError`]. The job is not in the table then.
    pub fn enter(
        table: impl Into<Arc<Table>>,
        mechanism: Option<StopChoice>,
        entering: impl Fn(&State) -> Entering,
        waiting: &mut dyn Waiting,
    ) -> Result<Agent, AgentError> {
        let table = table.into();
        // One that comes as soon as the job is in the table must end the wait, too.
        let requests = queue::catch_requests()?;
        let before = table.page().departures();
        let job = table.update_serialized(|state, now| {
            let entering = entering(state);
            state.enter(&entering, now).map_err(AgentError::from)
        })?;
        let begin = || {
            if table.known()?.job(job)?.is_queued() {
                queue::wait(&table, job, before, &requests, waiting)?;
            }
            queue::obey(&requests)?;
            drop(requests);
            let state = table.state()?;
            let Entering { gang, program, .. } = entering(&state);
            let is_lowered = gang == Gang::Moderate;
            let stop = StopMeans::prepare(mechanism, is_lowered)?;
            let lower = || LowerMeans::prepare(program, stop.group(), state.task_groups());
            let lower = is_lowered.then(lower).transpose()?;
            // The ranks map it when they start.
            table.turn_page(job).map_err(AgentError::Processes)?.set_slice(state.slice());
            Ok::<_, AgentError>((stop, lower, table.processes(job).map_err(AgentError::Processes)?))
        };
        let (stop, lower, list) = begin().inspect_err(|_| {
            let _ = table.update_serialized(|state, now| state.release(job, now).map_err(AgentError::from));
        })?;
        let shared = Shared { table, job, list, is_ending: AtomicBool::new(false), failed: Mutex::new(None) };
        Ok(Agent { shared: Arc::new(shared), thread: None, adopted: None, stop, lower })
    }

    /// The number of the job.
    pub fn job(&self) -> JobId {
        self.shared.job
    }

    /// The latest version of the table.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn state(&self) -> Result<Arc<State>, AgentError> {
        Ok(self.shared.table.state()?)
    }

    /// The job's cells. `None` if it has none.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn cells(&self) -> Result<Option<Rectangle>, AgentError> {
        Ok(self.state()?.job(self.job())?.cells)
    }

    /// The variable of all ranks by which they find out whose turn it is, and its value.
    pub fn turn_variable(&self) -> (&'static str, PathBuf) {
        (wait::turn::VARIABLE, self.shared.table.turn_page_path(self.job()))
    }

    /// The control groups that all ranks must be in.
    pub fn groups(&self) -> impl Iterator<Item = &JobGroup> {
        self.stop.group().into_iter().chain(self.lower.as_ref().and_then(LowerMeans::group))
    }

    /// Lets the job, whose processes are the descendants of these, take turns. The function returns
    /// how often they have waited by the preloaded library so far, if that is counted: see
    /// [`policy::gang::LibraryWaits`].
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn start(&mut self, keepers: Vec<Pid>, waits: impl FnMut() -> u64 + Send + 'static) -> Result<(), AgentError> {
        self.set_mechanisms()?;
        self.watch(move || descendants(&keepers), waits)
    }

    /// Tells the table how the job is stopped and lowered.
    fn set_mechanisms(&self) -> Result<(), AgentError> {
        self.update(|state, _| {
            let lower = self.lower.as_ref().map(LowerMeans::lower_by);
            lower.map_or(Ok(()), |lower_by| state.set_lower_by(self.job(), lower_by))?;
            state.set_stop_by(self.job(), self.stop.stop_by())
        })
    }

    /// Starts the thread. The functions list the processes of the job, and count their waits.
    fn watch(
        &mut self,
        processes: impl Fn() -> Vec<Identity> + Send + 'static,
        mut waits: impl FnMut() -> u64 + Send + 'static,
    ) -> Result<(), AgentError> {
        let shared = self.shared.clone();
        let watch = move || Watch::new(&shared, &wait::now, &processes, &mut waits).run();
        let started = std::thread::Builder::new().name("agent".to_owned()).spawn(watch);
        self.thread = Some(started.map_err(AgentError::Thread)?);
        Ok(())
    }

    /// Whether the ranks are stopped by SIGSTOP now, as far as turns are concerned.
    pub fn is_stopped_by_signals(&self) -> bool {
        let action = || self.shared.table.state().ok().and_then(|state| state.action(self.job(), wait::now()));
        self.stop.group().is_none() && action() == Some(Action::Stop)
    }

    /// Tells all agents to leave the job alone, because its terminal stops it, or to let it take
    /// turns again.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn set_suspended(&self, is_suspended: bool) -> Result<(), AgentError> {
        self.update(|state, now| state.set_suspended(self.job(), is_suspended, now))?;
        if is_suspended {
            // This process may be stopped before the next switch.
            self.stop.thaw();
        }
        Ok(())
    }

    /// Lets the job run at any time, because it is to end: so it can do what is left to do.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn set_ending(&self) -> Result<(), AgentError> {
        let changed = self.update(|state, now| state.set_ending(self.job(), now));
        self.stop.thaw();
        changed
    }

    fn update(&self, change: impl Fn(&mut State, Instant) -> Result<(), StateError>) -> Result<(), AgentError> {
        self.shared.table.update(|state, now| Ok(change(state, now)?))
    }

    /// Takes the job out of the table. Its processes must have ended, unless they were adopted:
    /// then they go on. Blocks until the agent's thread has ended.
    ///
    /// # Errors
    /// The first error of the agent. The job is out of the table if that was possible.
    pub fn leave(mut self) -> Result<(), AgentError> {
        let left = self.end();
        let failed = self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(left, Err)
    }

    fn end(&mut self) -> Result<(), AgentError> {
        let shared = &self.shared;
        if shared.is_ending.swap(true, SeqCst) {
            return Ok(());
        }
        let left =
            shared.table.update_serialized(|state, now| state.release(shared.job, now).map_err(AgentError::from));
        shared.table.remove_processes(shared.job);
        if let Some(thread) = self.thread.take() {
            // The change wakes it. If there is none, it wakes after a second at the latest.
            let _ = thread.join();
        }
        if let Some(Adopted { job, successor }) = self.adopted.take() {
            shared.release(&job);
            successor.dismiss();
        }
        left
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The loop of an agent.
struct Watch<'a> {
    shared: &'a Shared,
    page: &'a Page,
    /// The time.
    now: &'a dyn Fn() -> Instant,
    /// Lists the processes of the job; parents come before their children.
    processes: &'a dyn Fn() -> Vec<Identity>,
    /// Counts their waits by the preloaded library.
    count_waits: &'a mut dyn FnMut() -> u64,
    /// The latest version that it has read.
    latest: Option<Arc<State>>,
    switcher: Switcher,
    behaviour: Behaviour,
    uses: TurnUse,
    /// The last switch has to be repeated.
    again: bool,
    /// The claim of another agent, and when it was first seen.
    seen: Option<(Claim, Instant)>,
    /// How long that claim may last.
    patience: Span,
    /// Whether the job was stopped at the last look at it, after its processes were listed.
    was_stopped: bool,
    /// When the job's processes were last listed, and when they were last observed.
    listed: Option<Instant>,
    observed: Option<Instant>,
    /// Watches the job out of its turn, if it is not stopped.
    hints: HintWatch,
    beside: Observer,
    /// When it last looked whether all other agents are alive.
    found_alive: Option<Instant>,
}

impl<'a> Watch<'a> {
    fn new(
        shared: &'a Shared,
        now: &'a dyn Fn() -> Instant,
        processes: &'a dyn Fn() -> Vec<Identity>,
        count_waits: &'a mut dyn FnMut() -> u64,
    ) -> Watch<'a> {
        Watch {
            shared,
            page: shared.table.page(),
            now,
            processes,
            count_waits,
            latest: None,
            switcher: Switcher::new(),
            behaviour: Behaviour::default(),
            uses: TurnUse::default(),
            again: false,
            seen: None,
            patience: PATIENCE,
            was_stopped: false,
            listed: None,
            observed: None,
            hints: HintWatch::new(),
            beside: Observer::default(),
            found_alive: None,
        }
    }

    /// Runs until the job ends. As long as the table cannot be used, the job runs without turns.
    fn run(mut self) {
        while !self.shared.is_ending.load(SeqCst) {
            let changes = self.page.changes();
            let wake = self.look().unwrap_or_else(|why| {
                self.shared.note(why);
                self.release();
                Some((self.now)() + LONGEST_SLEEP)
            });
            if let Some(wake) = wake {
                self.page.wait(changes, wake);
            }
        }
        // The other agents may be stopped, and one of their jobs may have the next turn.
        let _ = self.look();
    }

    /// Lets the own job run.
    fn release(&mut self) {
        let &Shared { job: id, ref list, .. } = self.shared;
        let job = self.latest.as_ref().and_then(|state| state.job(id).ok());
        let released = job.map(|job| self.switcher.release(&job.target(id, list)));
        released
            .into_iter()
            .filter_map(Result::err)
            .for_each(|why| self.shared.note(AgentError::Switch { job: id, why }));
    }

    /// Switches if it is time to, and looks after the own job. Returns the time of the next look.
    /// `None` if that is now.
    fn look(&mut self) -> Result<Option<Instant>, AgentError> {
        let (version, state) = self.shared.table.latest()?;
        self.latest = Some(state.clone());
        let now = (self.now)();
        let boundary = state.next_boundary(now);
        let wanted = if self.again { Wanted::Again } else { Wanted::Turn(turn(version, boundary)) };
        let overdue = self.seen.filter(|&(_, first)| now.since(first) >= self.patience).map(|(claim, _)| claim);
        match self.page.claims().claim(wanted, overdue) {
            Answer::Granted(claim) => {
                self.switch(claim)?;
                return Ok(None);
            }
            Answer::Busy(claim) => {
                let first = self.seen.filter(|&(seen, _)| seen == claim).map_or(now, |(_, first)| first);
                self.seen = Some((claim, first));
                self.patience = PATIENCE + self.switcher.time_for_processes(&self.shared.table, &state);
                return Ok(Some(first + self.patience));
            }
            Answer::Done => self.seen = None,
        }
        if self.release_ended(&state, now) || self.note_use_of_turns(&state, now) || self.attend(&state, now) {
            return Ok(None);
        }
        let place = state.jobs().position(|(job, _)| job == self.shared.job).unwrap_or(0) as u64;
        // The agent of the first job usually makes the switch.
        self.switcher.prepare(&state, boundary.filter(|_| place == 0));
        let stagger = Span::from_nanos(STAGGER.as_nanos().saturating_mul(place)).min(LONGEST_STAGGER);
        let latest = now + longest_sleep(&state);
        Ok(Some(boundary.map_or(latest, |boundary| (boundary + stagger).min(latest))))
    }

    /// Switches all jobs. The table and the time are read after the claim: those before may be old.
    fn switch(&mut self, claim: Claim) -> Result<(), AgentError> {
        self.seen = None;
        let (version, state) = self.shared.table.latest()?;
        let now = (self.now)();
        let skew = self.switcher.switch(&self.shared.table, &state, now).unwrap_or_else(|(job, why)| {
            // It may have ended meanwhile.
            if self.shared.table.state().is_ok_and(|state| state.job(job).is_ok_and(|job| job.agent().is_alive())) {
                self.shared.note(AgentError::Switch { job, why });
            }
            None
        });
        let boundary = state.next_boundary(now);
        // If the last switch was for another version, this one is not that of a boundary.
        let last = self.page.switched();
        let is_of_boundary = !self.again && last >> 32 == version >> 32;
        self.again = !self.page.claims().finish(claim, turn(version, boundary));
        if is_of_boundary {
            let done = (self.now)();
            self.page.duration().count(done.since(now));
            skew.into_iter().for_each(|skew| self.page.skew().count(skew));
            if let Some(begun) = boundary.map(|next| first_boundary(last, next, state.slice())) {
                self.page.lateness().count(now.since(begun));
                self.page.delay().count(done.since(begun));
            }
        }
        Ok(())
    }

    /// Releases the jobs whose agents were killed, if it is time to. Returns whether there are any.
    fn release_ended(&mut self, state: &State, now: Instant) -> bool {
        if !is_due(self.found_alive, LIVENESS, now) {
            return false;
        }
        self.found_alive = Some(now);
        // Every change does it. Those in the queue look after each other.
        state.jobs().any(|(_, job)| !job.is_queued() && !job.agent().is_alive()) && self.update(|_, _| Ok(()))
    }

    /// Changes the table. Returns whether that was possible: if not, it is tried again later.
    fn update(&self, change: impl Fn(&mut State, Instant) -> Result<(), StateError>) -> bool {
        let changed = self.shared.table.update(|state, now| change(state, now).map_err(AgentError::from));
        changed.map_err(|why| self.shared.note(why)).is_ok()
    }

    /// Tells the others how the job has used its turns if one has ended. Returns whether the table
    /// has changed.
    fn note_use_of_turns(&mut self, state: &State, now: Instant) -> bool {
        let job = self.shared.job;
        let Some(facts) = state.facts(job).filter(|facts| facts.gang == Gang::Adaptive || facts.takes_turns()) else {
            return false;
        };
        let processes = self.shared.list.iter().map(|(process, _)| process);
        let end = self.uses.look(state, job, now, processes);
        if end.is_some() || state.next_boundary(now).is_none() {
            self.shared.list.set_share(end.and_then(|end| end.share));
        }
        let Some(TurnEnd { idles, .. }) = end else { return false };
        let has_changed = facts.gang == Gang::Adaptive && facts.idles != idles;
        has_changed && self.update(|state, _| state.set_idles(job, idles))
    }

    /// Lists the processes of the own job and observes them, if it is time to. Returns whether
    /// there is something to do at once.
    fn attend(&mut self, state: &State, now: Instant) -> bool {
        if self.watch_hint(state, now) {
            return true;
        }
        let job = self.shared.job;
        let is_grouped = state.job(job).is_ok_and(|job| job.stop_by.as_ref().is_some_and(|by| by.group.is_some()));
        // A job that takes turns starts processes only in them. They may have to be stopped soon,
        // unless its group is stopped.
        let is_urgent = !is_grouped && state.facts(job).is_some_and(|facts| facts.takes_turns());
        let interval = if is_urgent { Span::ZERO } else { OBSERVATION };
        let is_listed = std::mem::replace(&mut self.was_stopped, state.action(job, now) == Some(Action::Stop));
        if is_listed || !is_due(self.listed, interval, now) {
            return false;
        }
        let processes = (self.processes)();
        let places = state.job(job).map_or(PLACES, Job::places);
        if processes.len() > places && self.reserve(processes.len()) {
            self.was_stopped = false;
            return true;
        }
        self.listed = Some(now);
        let last = if is_grouped { last_thread(processes.iter().rev()) } else { last_thread(&processes) };
        self.shared.list.set_last_thread(last);
        if self.shared.list.set(&processes, places) && !is_grouped {
            // They may have begun in another job's turn, and have started others meanwhile.
            self.again = true;
            self.was_stopped = false;
            return true;
        }
        if !is_due(self.observed, state.slice().max(OBSERVATION), now) {
            return false;
        }
        self.observed = Some(now);
        self.classify(state, now)
    }

    /// Reserves places for so many processes. Returns whether there are more than before.
    fn reserve(&self, processes: usize) -> bool {
        let job = self.shared.job;
        // Trying costs nothing; a new version wakes all agents.
        let has_more =
            self.latest.as_ref().is_some_and(|state| State::clone(state).reserve(job, processes).unwrap_or(false));
        has_more && self.update(|state, _| state.reserve(job, processes).map(drop))
    }

    /// Observes what a job whose ranks give way by themselves uses out of its turn, and says in the
    /// table if that is too much. Returns whether the table has changed.
    fn watch_hint(&mut self, state: &State, now: Instant) -> bool {
        let id = self.shared.job;
        let Ok(job) = state.job(id) else { return false };
        let Some(hint) = job.stop_by.as_ref().map(|stop_by| stop_by.hint) else { return false };
        if self.hints.tries_again(hint, now) {
            return self.update(|state, _| state.set_hint(id, Hint::Obeyed));
        }
        let gives_way = hint == Hint::Obeyed && !job.is_held && state.action(id, now) == Some(Action::Stop);
        let look = self.hints.look(gives_way, mark::stops(self.shared.list.group_mark().load(SeqCst)), now);
        if look == Look::Pass {
            return false;
        }
        let processes = (self.processes)();
        let threads = self.beside.observe(processes.into_iter().map(|process| (process, 0)), 0);
        let begun =
            state.next_boundary(now).map_or(now, |next| Instant::ZERO + next.since(Instant::ZERO + state.slice()));
        let ran = threads.iter().fold(Span::ZERO, |sum, thread| sum + thread.counters.ran);
        let cpus = u64::from(state.cpus(id));
        look == Look::End
            && self.hints.end(begun, now, ran, cpus)
            && self.update(|state, _| state.set_hint(id, Hint::Ignored))
    }

    /// Tells the table how the job behaves. Returns whether that has changed.
    fn classify(&mut self, state: &State, now: Instant) -> bool {
        let job = self.shared.job;
        let facts = state.facts(job).filter(|facts| !facts.is_held);
        let before = facts.map(|facts| facts.class);
        let class =
            self.behaviour.look(before, &self.shared.list, (self.count_waits)(), self.uses.has_left_turn(), now);
        class
            .filter(|_| class != before)
            .is_some_and(|class| self.update(|state, now| state.set_class(job, class, now)))
    }
}

/// How long an agent sleeps at most. Without boundaries jobs run at any time, also one that is
/// taken for another than it is. So they are observed, unless there is only one.
fn longest_sleep(state: &State) -> Span {
    let started = state.jobs().filter(|(_, job)| !job.is_queued()).count();
    if started > 1 { OBSERVATION } else { LONGEST_SLEEP }
}

/// Whether something that is done in such intervals is to be done at `now`.
fn is_due(last: Option<Instant>, interval: Span, now: Instant) -> bool {
    last.is_none_or(|last| now.since(last) >= interval)
}

#[cfg(test)]
mod tests;
