//! One version of the table: all jobs, and what is decided about them.
//!
//! It is read from a file that any process of this user may have written, so it is checked.

use std::collections::BTreeMap;

use policy::coscheduler::{Coscheduler, CoschedulingError, JobFacts, Rules, Snapshot};
use policy::gang::{Action, Class, Gang};
use policy::layout::{Rectangle, Request};
use policy::slices::{Entry, Slice};
use policy::{Instant, JobId, Span};
use serde::{Deserialize, Serialize};
use sys::identity::Identity;
use sys::load::CpuTime;
use sys::task_group::TaskGroup;
use wait::turn::Turn;

use self::queue::Queued;
pub use self::shares::ShareError;
use crate::lowering::CannotLower;
use crate::mechanisms::Target;
use crate::process_list::ProcessList;
use crate::restraint::{Hint, LowerBy, StopBy};
use crate::topology::Topology;

mod queue;
mod shares;

/// The shortest and the longest slice.
pub const SLICES: std::ops::RangeInclusive<Span> = Span::from_millis(5)..=Span::from_millis(10_000);
/// The most jobs.
const MOST_JOBS: usize = 10_000;
/// The user who may do everything.
const ROOT: u32 = 0;
/// The most bytes of a job's command that are kept.
const LONGEST_COMMAND: usize = 1_000;

/// One version of the table.
#[derive(Clone, Debug)]
pub struct State {
    topology: Topology,
    slice: Span,
    /// The number of the next job.
    next: u32,
    jobs: BTreeMap<JobId, Job>,
    coscheduler: Coscheduler,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    #[serde(with = "StoredIdentity")]
    agent: Identity,
    /// Its command, for people.
    pub command: String,
    /// The number of its ranks. Zero if it is a program that ran before.
    pub ranks: u32,
    /// When it was entered, by the clock of turns.
    pub entered: Instant,
    /// How much CPU time had been stolen from this virtual machine until then, all CPUs together.
    pub stolen: Span,
    /// Whether its user holds it.
    pub is_held: bool,
    /// Whether its terminal has stopped it. Agents leave it alone then.
    pub is_suspended: bool,
    /// Its cells. `None` if it runs on CPUs that the table does not have, and in the queue.
    pub cells: Option<Rectangle>,
    /// The memory that it has claimed, in bytes.
    pub memory: Option<u64>,
    /// Its request, as long as it waits in the queue.
    queued: Option<Queued>,
    /// How it is stopped. `None` until its ranks have started: agents leave it alone until then.
    pub stop_by: Option<StopBy>,
    /// How it is lowered. `None` if that was never asked for.
    pub lower_by: Option<LowerBy>,
    /// The user and the process that the agent acts for, in a table of several users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<Client>,
    /// The program that ran before it was a job. `None` if the job has ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<StoredProgram>,
    /// How many processes are reserved for it. `None` if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    places: Option<u16>,
}

/// The process of a user for which an agent of `rowlock pds` acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// The process that has started the ranks.
    #[serde(with = "StoredIdentity")]
    pub process: Identity,
    /// The id of its user, whose processes alone belong to the job.
    pub user: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Identity", deny_unknown_fields)]
struct StoredIdentity {
    pid: u32,
    started: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredProgram(#[serde(with = "StoredIdentity")] Identity);

/// A job that asks to be entered.
#[derive(Clone, Debug)]
pub struct Entering {
    /// The process that acts for it.
    pub agent: Identity,
    /// The CPU time that has been [`stolen`] until now.
    pub stolen: Span,
    /// Its command, for people.
    pub command: String,
    /// The number of its ranks. Zero for a program that runs already.
    pub ranks: u32,
    /// The cells that it asks for. `None` if it runs on CPUs that the table does not have.
    pub request: Option<Request>,
    /// Its share of the turns.
    pub weight: u32,
    /// Its way to share the machine.
    pub gang: Gang,
    /// The job whose turns are to be its turns, too.
    pub with: Option<JobId>,
    /// Whether it waits in the queue until no other job has its cells.
    pub waits_for_cells: bool,
    /// The memory that it claims, in bytes. It waits in the queue until that is left.
    pub memory: Option<u64>,
    /// The user and the process that the agent acts for, in a table of several users.
    pub client: Option<Client>,
    /// The program that runs already, if the job has no ranks.
    pub program: Option<Identity>,
}

/// The reason why a change is refused.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A policy refuses it.
    #[error(transparent)]
    Policy(#[from] CoschedulingError),
    /// There is no such job.
    #[error("there is no job {0}; `rowlock jobs` lists all jobs")]
    Unknown(JobId),
    /// The job takes no turns.
    #[error("job {0} takes no turns: its CPUs are not in the table of jobs")]
    NoTurns(JobId),
    /// The job has not started yet.
    #[error("job {0} waits in the queue")]
    Queued(JobId),
    /// The job cannot be lowered.
    #[error(transparent)]
    CannotLower(#[from] CannotLower),
    /// The job cannot be lowered, because it could not be raised if its agent were killed.
    #[error("job {0} ran before it was a job: start `rowlock prun --pid` with `--how moderate` instead")]
    Adopted(JobId),
    /// A user asks for too much.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// There are too many jobs.
    #[error("there are {MOST_JOBS} jobs already")]
    Full,
    /// The next version would be larger than a version may be.
    #[error("the table of jobs is full: the jobs and their commands would take more than 16 MiB")]
    TooLarge,
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    topology: Topology,
    slice: Span,
    next: u32,
    jobs: BTreeMap<u32, Job>,
    decisions: Snapshot,
}

impl State {
    /// No jobs on a machine, with slices of this length.
    pub fn new(topology: Topology, slice: Span) -> State {
        let coscheduler = Coscheduler::new(topology.mesh(), rules(slice));
        State { topology, slice, next: 1, jobs: BTreeMap::new(), coscheduler }
    }

    /// These jobs, after which the numbers of others begin with this one, or later.
    #[must_use]
    pub fn numbered_from(mut self, first: u32) -> State {
        self.skip_to(first);
        self
    }

    /// Lets the numbers of the jobs to come begin with this one, or later.
    pub(crate) fn skip_to(&mut self, first: u32) {
        self.next = self.next.max(first);
    }

    /// Reads a version that was written before `now`.
    ///
    /// # Errors
    /// If it makes no sense, with the reason.
    pub fn from_bytes(bytes: &[u8], now: Instant) -> Result<State, String> {
        let Stored { topology, slice, next, jobs, decisions } =
            serde_json::from_slice(bytes).map_err(|why| why.to_string())?;
        if !SLICES.contains(&slice) {
            return Err(format!("its slices last {slice}"));
        }
        if jobs.len() > MOST_JOBS || jobs.last_key_value().is_some_and(|(&last, _)| last >= next) {
            return Err("it has too many jobs".to_owned());
        }
        let jobs: BTreeMap<JobId, Job> = jobs.into_iter().map(|(id, job)| (JobId(id), job)).collect();
        if decisions.tables.iter().any(|table| table.turns.reference > now + slice) {
            return Err("its turns begin too late".to_owned());
        }
        let decided = decisions.jobs.len();
        let coscheduler =
            Coscheduler::restore(topology.mesh(), rules(slice), decisions).map_err(|why| why.to_string())?;
        if jobs.values().any(|job| job.queued.is_some() && job.cells.is_some()) {
            return Err("a job has cells and waits for them".to_owned());
        }
        let is_entered = |(id, job): (&JobId, &Job)| coscheduler.facts(*id).is_some() == job.cells.is_some();
        let entered = jobs.values().filter(|job| job.cells.is_some()).count();
        if !jobs.iter().all(is_entered) || decided != entered {
            return Err("its jobs are not those with turns".to_owned());
        }
        Ok(State { topology, slice, next, jobs, coscheduler })
    }

    /// As it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let stored = Stored {
            topology: self.topology.clone(),
            slice: self.slice,
            next: self.next,
            jobs: self.jobs.iter().map(|(id, job)| (id.0, job.clone())).collect(),
            decisions: self.coscheduler.snapshot(),
        };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// The table as a user may see it: the commands of others are missing.
    #[must_use]
    pub(crate) fn shown_to(&self, user: u32) -> State {
        let mut shown = self.clone();
        let of_others = |job: &&mut Job| user != ROOT && job.user() != Some(user);
        shown.jobs.values_mut().filter(of_others).for_each(|job| job.command.clear());
        shown
    }

    /// The cells of the machine.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How long a slice is active.
    pub fn slice(&self) -> Span {
        self.slice
    }

    /// All jobs, in the order in which they were entered.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = (JobId, &Job)> {
        self.jobs.iter().map(|(&id, job)| (id, job))
    }

    /// The task groups of all jobs that have not ended. `None` if it is unknown.
    pub(crate) fn task_groups(&self) -> impl Iterator<Item = (JobId, Option<TaskGroup>)> {
        self.jobs().filter(|(_, job)| job.agent.is_alive()).map(|(id, job)| (id, job.task_group()))
    }

    /// A job.
    ///
    /// # Errors
    /// [`StateError::Unknown`].
    pub fn job(&self, id: JobId) -> Result<&Job, StateError> {
        self.jobs.get(&id).ok_or(StateError::Unknown(id))
    }

    /// Its way to share the machine, its weight and its class. `None` if it takes no turns because
    /// it runs on other CPUs.
    pub fn facts(&self, id: JobId) -> Option<JobFacts> {
        self.coscheduler.facts(id)
    }

    /// The number of CPUs of a job's cells.
    pub(crate) fn cpus(&self, id: JobId) -> u32 {
        let rectangle = self.jobs.get(&id).and_then(|job| job.cells);
        let cells = rectangle.into_iter().flat_map(|cells| cells.cells(self.topology.mesh()));
        cells.map(|cell| self.topology.cpus_of(cell).len() as u32).sum()
    }

    /// The number that stands for a job in slices: its own, unless it cooperates with others.
    pub fn task(&self, id: JobId) -> JobId {
        self.coscheduler.task(id)
    }

    /// The slices that take turns at `now`, with [tasks](Self::task).
    pub fn slices(&self, now: Instant) -> &[Slice] {
        self.coscheduler.slices(now)
    }

    /// Whether a job's processes run or are stopped at `now`. `None` if agents leave them alone.
    pub fn action(&self, id: JobId, now: Instant) -> Option<Action> {
        let job = self.jobs.get(&id)?;
        match job.is_suspended || job.queued.is_some() {
            true => None,
            false if job.cells.is_none() => Some(if job.is_held { Action::Stop } else { Action::Run }),
            false => Some(self.coscheduler.action(id, now)),
        }
    }

    /// Whose turn it is at `now`, for the threads of a job.
    pub(crate) fn turn(&self, id: JobId, now: Instant) -> Turn {
        let takes_turns = self.facts(id).is_some_and(|facts| facts.takes_turns());
        match (self.action(id, now), self.next_boundary(now).filter(|_| takes_turns)) {
            (Some(Action::Run), Some(boundary)) => Turn::OursUntil(boundary),
            (Some(Action::Stop), Some(boundary)) => Turn::OthersUntil(boundary),
            // A lowered job may use the CPUs that are left.
            _ => Turn::NoTurns,
        }
    }

    /// Whether it is the turn of a job that takes turns.
    pub(crate) fn has_turn(&self, id: JobId, now: Instant) -> bool {
        self.coscheduler.has_turn(id, now)
    }

    /// The boundary after `now` at which actions change. `None` if they remain until the table
    /// changes.
    pub fn next_boundary(&self, now: Instant) -> Option<Instant> {
        self.coscheduler.next_boundary(now)
    }

    /// Enters a job, and returns its number. If it waits for something, it is in the queue then.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn enter(&mut self, entering: &Entering, now: Instant) -> Result<JobId, StateError> {
        if self.jobs.len() >= MOST_JOBS || self.next == u32::MAX {
            return Err(StateError::Full);
        }
        self.check_share(entering)?;
        let id = JobId(self.next);
        let queued = Queued::new(entering);
        let &Entering { request, with, gang, weight, .. } = entering;
        let cells = if queued.is_some() { None } else { self.place(id, request, with, gang, weight, now)? };
        self.next += 1;
        let job = Job {
            agent: entering.agent,
            command: shortened(&entering.command),
            ranks: entering.ranks,
            entered: now,
            stolen: entering.stolen,
            is_held: false,
            is_suspended: false,
            cells,
            memory: entering.memory,
            queued,
            stop_by: None,
            lower_by: None,
            client: entering.client,
            program: entering.program.map(StoredProgram),
            places: self.places(entering),
        };
        self.jobs.insert(id, job);
        Ok(id)
    }

    /// Finds cells for a job.
    fn place(
        &mut self,
        id: JobId,
        request: Option<Request>,
        with: Option<JobId>,
        gang: Gang,
        weight: u32,
        now: Instant,
    ) -> Result<Option<Rectangle>, StateError> {
        with.map_or(Ok(()), |with| self.require_turns(with))?;
        let Some(request) = request else { return Ok(None) };
        if let Some(with) = with {
            return Ok(Some(self.coscheduler.enter_along(id, with, gang, request, weight, now)?));
        }
        match self.coscheduler.enter_as(id, gang, request, weight, now)? {
            Entry::Placed(cells) => Ok(Some(cells)),
            // The number of slices is not limited.
            Entry::Waits => Err(StateError::Full),
        }
    }

    /// Releases a job. It may have been released before.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn release(&mut self, id: JobId, now: Instant) -> Result<(), StateError> {
        if self.jobs.remove(&id).is_some_and(|job| job.cells.is_some()) {
            self.coscheduler.release(id, now)?;
        }
        Ok(())
    }

    /// Holds a job, which is stopped until it is let go.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn set_held(&mut self, id: JobId, is_held: bool, now: Instant) -> Result<(), StateError> {
        self.change(id, now, |job| job.is_held = is_held)
    }

    /// Leaves a job alone as long as its terminal has stopped it.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn set_suspended(&mut self, id: JobId, is_suspended: bool, now: Instant) -> Result<(), StateError> {
        self.change(id, now, |job| job.is_suspended = is_suspended)
    }

    /// Says how a job is stopped, whose ranks have started.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn set_stop_by(&mut self, id: JobId, stop_by: StopBy) -> Result<(), StateError> {
        self.jobs.get_mut(&id).ok_or(StateError::Unknown(id))?.stop_by = Some(stop_by);
        Ok(())
    }

    /// Says whether the ranks of a job give way by themselves.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn set_hint(&mut self, id: JobId, hint: Hint) -> Result<(), StateError> {
        let job = self.jobs.get_mut(&id).ok_or(StateError::Unknown(id))?;
        job.stop_by.iter_mut().for_each(|stop_by| stop_by.hint = hint);
        Ok(())
    }

    /// Says how a job is lowered, unless that is known: what is lowered must be raised in the same
    /// way.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn set_lower_by(&mut self, id: JobId, lower_by: LowerBy) -> Result<(), StateError> {
        self.jobs.get_mut(&id).ok_or(StateError::Unknown(id))?.lower_by.get_or_insert(lower_by);
        Ok(())
    }

    /// Says how a job is lowered that runs, unless that is known.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn find_lower_by(&mut self, id: JobId) -> Result<(), StateError> {
        let job = self.job(id)?;
        let Job { agent, lower_by: None, .. } = *job else { return Ok(()) };
        if job.is_adopted() {
            return Err(StateError::Adopted(id));
        }
        self.set_lower_by(id, LowerBy::of_running(agent, self.task_groups())?)
    }

    /// Another job that competes with this one in all turns: its threads may be lowered, but that
    /// says nothing to this one, which is in another task group.
    pub fn lowered_in_vain(&self, id: JobId) -> Option<JobId> {
        let own = self.jobs.get(&id)?.task_group();
        let is_apart = |job: &Job| job.lower_by.as_ref().is_some_and(LowerBy::is_of_threads) && job.task_group() != own;
        self.jobs.iter().find(|(_, job)| is_apart(job)).map(|(&id, _)| id)
    }

    /// Lets a job that is about to end run at any time.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn set_ending(&mut self, id: JobId, now: Instant) -> Result<(), StateError> {
        self.set_held(id, false, now)?;
        if self.facts(id).is_some() { self.set_gang(id, Gang::None, now) } else { Ok(()) }
    }

    fn change(&mut self, id: JobId, now: Instant, change: impl FnOnce(&mut Job)) -> Result<(), StateError> {
        self.require_start(id)?;
        let job = self.jobs.get_mut(&id).ok_or(StateError::Unknown(id))?;
        let before = (job.is_held, job.is_suspended);
        change(job);
        if job.cells.is_some() && before != (job.is_held, job.is_suspended) {
            // A suspended job takes no turns either, so that others have its time.
            self.coscheduler.set_held(id, job.is_held || job.is_suspended, now)?;
        }
        Ok(())
    }

    /// Gives a job another weight.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn set_weight(&mut self, id: JobId, weight: u32, now: Instant) -> Result<(), StateError> {
        self.require_turns(id)?;
        let is_same = self.facts(id).is_some_and(|facts| facts.weight == weight);
        if is_same { Ok(()) } else { Ok(self.coscheduler.set_weight(id, weight, now)?) }
    }

    /// Gives a job another way to share the machine.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn set_gang(&mut self, id: JobId, gang: Gang, now: Instant) -> Result<(), StateError> {
        self.require_turns(id)?;
        if self.facts(id).is_some_and(|facts| facts.gang != gang) {
            self.coscheduler.set_gang(id, gang, now)?;
        }
        Ok(())
    }

    /// Says how a job behaves.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn set_class(&mut self, id: JobId, class: Class, now: Instant) -> Result<(), StateError> {
        self.require_turns(id)?;
        self.coscheduler.set_class(id, class, now)?;
        Ok(())
    }

    /// Says whether a job idles in its turns.
    ///
    /// # Errors
    /// [`StateError`].
    pub(crate) fn set_idles(&mut self, id: JobId, idles: bool) -> Result<(), StateError> {
        self.require_turns(id)?;
        Ok(self.coscheduler.set_idles(id, idles)?)
    }

    fn require_turns(&self, id: JobId) -> Result<(), StateError> {
        self.require_start(id)?;
        self.coscheduler.facts(id).map(drop).ok_or(StateError::NoTurns(id))
    }
}

impl Job {
    /// The job with this number and these processes, for mechanisms.
    pub(crate) fn target<'a>(&'a self, id: JobId, list: &'a ProcessList) -> Target<'a> {
        let (stop_by, lower_by) = (self.stop_by.as_ref(), self.lower_by.as_ref());
        let (agent, user, is_held) = (self.agent, self.user(), self.is_held);
        Target { id, agent, user, stop_by, lower_by, is_held, list }
    }

    /// Whether its processes do not end with the agent: those of a program that ran before, and
    /// those of a client.
    pub fn is_adopted(&self) -> bool {
        self.program.is_some() || self.client.is_some()
    }

    /// The process whose descendants are those of the job: a program that ran before, the client,
    /// or the agent.
    pub fn ancestor(&self) -> Identity {
        self.program.map_or_else(|| self.starter(), |StoredProgram(program)| program)
    }

    /// The process that has started the ranks: the client, or the agent.
    pub fn starter(&self) -> Identity {
        self.client.map_or(self.agent, |client| client.process)
    }

    /// The user whose processes alone belong to it. `None` if all jobs of the table are of one
    /// user.
    pub fn user(&self) -> Option<u32> {
        self.client.map(|client| client.user)
    }

    /// The process that acts for the job.
    pub fn agent(&self) -> Identity {
        self.agent
    }

    /// The task group of its threads. `None` if it is unknown.
    fn task_group(&self) -> Option<TaskGroup> {
        match &self.lower_by {
            Some(LowerBy::Weight { group, .. }) => Some(TaskGroup::Group(group.into())),
            _ => TaskGroup::of(self.ancestor().pid),
        }
    }
}

fn rules(slice: Span) -> Rules {
    Rules { gang: Gang::Adaptive, slice, avoid_jobs_beside: true, ..Rules::default() }
}

/// How much CPU time has been stolen from this virtual machine, as far as its host tells.
pub fn stolen() -> Span {
    CpuTime::of_machine().map_or(Span::ZERO, |time| time.stolen.into())
}

/// A command without the rest of a long one.
fn shortened(command: &str) -> String {
    let end = command.char_indices().map(|(at, _)| at).take_while(|&at| at <= LONGEST_COMMAND).last();
    if command.len() <= LONGEST_COMMAND { command.to_owned() } else { command[..end.unwrap_or(0)].to_owned() }
}

#[cfg(test)]
pub(crate) mod tests;
