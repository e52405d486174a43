//! The processes of a run's jobs, as the run sees them: it starts them, communicates with them, and
//! always ends them.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use policy::Span;
use policy::record::RecordedStep;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use scenario::JobKind;
use scenario::result::JobOutcome;
use sys::containment::{Contained, Manner, contain_in};
use sys::process::{RequestsToEnd, end_with_this_thread};

use crate::error::Error;
use crate::event_log::EventLog;
use crate::protocol::{Failure, JOB, MessageReader, Order, Rank, Reply, Request, Spins, send};
use crate::timeline::Sampler;
use crate::turns::{JobTurns, Turns};

/// The time between two checks whether the run was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// The process of one job, or of one rank of a job.
pub(crate) struct Job {
    pub(crate) name: String,
    /// The ids of the computing threads, once the job is ready.
    pub(crate) threads: Option<Vec<i32>>,
    /// The questions to its waiting rule and the decisions, if they are recorded.
    pub(crate) record: Vec<RecordedStep>,
    /// The spins of a rank, once it has finished.
    pub(crate) spins: Spins,
    /// The event logs of its threads, if they are written.
    pub(crate) event_logs: Vec<EventLog>,
    /// Its outcome, once it has finished.
    pub(crate) outcome: Option<JobOutcome>,
    /// How long it had run when it was cut off, if it was.
    pub(crate) cut_off: Option<Span>,
    /// Whether it runs until it is told to stop.
    pub(crate) endless: bool,
    /// Whether it says what it has done when it is cut off.
    counts_rounds: bool,
    /// When it starts, relative to the beginning of the run.
    pub(crate) arrival: Duration,
    /// Whether it has started.
    pub(crate) started: bool,
    /// Whether the process has others, a command or ranks, which it ends with itself.
    has_processes: bool,
    process: Process,
    /// The id of the process that has the computing threads, once the job is ready.
    id: u32,
    /// Its turns, if it takes any. They end after the process.
    turns: Option<JobTurns>,
    /// Whether it goes on after it has finished.
    keeps_running: bool,
    /// `None` once it is closed, which tells the job to end.
    requests: Option<ChildStdin>,
    replies: MessageReader<ChildStdout, Reply>,
}

/// The process that was started for a job.
enum Process {
    Plain(Child),
    /// With a keeper: as a job that takes turns, it may be stopped when the run is killed.
    Kept(Contained),
}

impl Process {
    fn child(&mut self) -> &mut Child {
        match self {
            Process::Plain(child) => child,
            Process::Kept(contained) => contained.process(),
        }
    }

    fn start(command: &mut Command, turns: Option<&JobTurns>) -> io::Result<Process> {
        match turns {
            None => {
                end_with_this_thread(command, RequestsToEnd::Ignore);
                Ok(Process::Plain(command.spawn()?))
            }
            Some(turns) => {
                let lifeline = contain_in(command, Manner::Background, &turns.groups())?;
                Ok(Process::Kept(Contained::new(command.spawn()?, lifeline)))
            }
        }
    }
}

impl Job {
    /// Starts the process that executes `order`.
    fn start(program: &Path, order: &Order, turns: Option<JobTurns>) -> Result<Job, Error> {
        let scenario::Job { name: job, kind, .. } = &order.job;
        let name = &order.rank.as_ref().map_or_else(|| job.clone(), |rank| format!("rank {}", rank.number));
        let failed = |why: io::Error| {
            // EAGAIN: a process limit that could not be read beforehand.
            let is_input = why.kind() == io::ErrorKind::WouldBlock;
            Error::of_job(name, format!("cannot start `{}` as its process: {why}", program.display()), is_input)
        };
        let mut command = Command::new(program);
        // The names identify the job in lists of processes.
        command.args([JOB, job]).args(order.rank.is_some().then_some(name));
        if order.rank.is_some() {
            // Its program is the one of this process, by the path of a link.
            command.arg0(std::env::args_os().next().unwrap_or_else(|| program.into()));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // The scenario decides the structure of its pipelines, not the user's environment.
        command.env_remove(pipeline::environment::STRUCTURE);
        command.envs(order.rank.iter().flat_map(Rank::environment));
        let mut process = Process::start(&mut command, turns.as_ref()).map_err(failed)?;
        let child = process.child();
        let (requests, replies) = (child.stdin.take(), child.stdout.take().map(MessageReader::new));
        let Some(replies) = replies else { return Err(failed(io::ErrorKind::BrokenPipe.into())) };
        let mut job = Job {
            name: name.clone(),
            threads: None,
            record: Vec::new(),
            spins: Spins::default(),
            event_logs: Vec::new(),
            outcome: None,
            cut_off: None,
            endless: kind.is_endless(),
            counts_rounds: matches!(kind, JobKind::Barrier { .. }),
            arrival: Duration::ZERO,
            started: false,
            has_processes: match kind {
                JobKind::Command { .. } => true,
                JobKind::Message(_) => order.rank.is_none(),
                _ => false,
            },
            process,
            id: 0,
            turns,
            keeps_running: order.keep_running,
            requests,
            replies,
        };
        job.send(order)?;
        Ok(job)
    }

    /// Whether it starts ahead of the jobs that end.
    pub(crate) fn starts_early(&self) -> bool {
        self.endless && self.arrival.is_zero()
    }

    /// The id of the process that has its threads, once it is ready.
    pub(crate) fn process(&self) -> u32 {
        self.id
    }

    /// Binds its threads to its cells, if it has any.
    fn bind(&self) -> Result<(), Error> {
        let threads = self.threads.as_deref().unwrap_or_default();
        self.turns.as_ref().map_or(Ok(()), |turns| turns.bind(&self.name, self.id, threads))
    }

    /// Lets it begin, as of this time.
    pub(crate) fn go(&mut self, at: policy::Instant) -> Result<(), Error> {
        if let (Some(turns), Process::Kept(process)) = (&mut self.turns, &self.process) {
            turns.start(&self.name, process.id())?;
        }
        self.send(&Request::Go(at))
    }

    /// Takes its outcome.
    fn finish(&mut self, outcome: JobOutcome) -> Result<(), Error> {
        self.outcome = Some(outcome);
        let turns = self.turns.as_ref().filter(|_| !self.keeps_running);
        turns.map_or(Ok(()), |turns| turns.finish(&self.name))
    }

    /// Sends the job its order or a request.
    fn send(&mut self, value: &impl serde::Serialize) -> Result<(), Error> {
        let sent = self.requests.as_ref().map_or(Err(io::ErrorKind::BrokenPipe.into()), |to| send(to, value));
        let Err(why) = sent else { return Ok(()) };
        // The process has died, or ends with its input. It may have written the reason.
        self.requests = None;
        while self.receive()? {}
        match why.kind() {
            io::ErrorKind::BrokenPipe => Err(self.unexpected_end()),
            _ => Err(Error::of_job(&self.name, format!("its process cannot be sent a request: {why}"), false)),
        }
    }

    /// Receives the job's replies, and waits if there are none. Returns false at the end of its
    /// output.
    fn receive(&mut self) -> Result<bool, Error> {
        let failed = |job: &Job, source| Error::Io { what: format!("job `{}`: cannot read from it", job.name), source };
        let more = self.replies.fill().map_err(|why| failed(self, why))?;
        while let Some(reply) = self.replies.pop() {
            match reply.map_err(|why| failed(self, why))? {
                Reply::Ready { process, threads } => (self.id, self.threads) = (process, Some(threads)),
                Reply::Recorded(record) => self.record = record,
                Reply::Spun(spins) => self.spins = spins,
                Reply::EventLog(piece) => self.add_log_piece(piece),
                Reply::Finished(outcome) => self.finish(*outcome)?,
                Reply::CutOff(outcome, ran) => {
                    self.cut_off = Some(ran);
                    self.finish(*outcome)?;
                }
                Reply::Failed(Failure { message, is_input }) => {
                    return Err(Error::of_job(&self.name, message, is_input));
                }
            }
        }
        Ok(more)
    }

    fn add_log_piece(&mut self, piece: EventLog) {
        match self.event_logs.last_mut().filter(|log| log.number == piece.number) {
            Some(log) => log.events.extend(piece.events),
            None => self.event_logs.push(piece),
        }
    }

    /// The error for a process that ended without a request.
    fn unexpected_end(&mut self) -> Error {
        let status = self.process.child().wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        Error::of_job(&self.name, format!("its process ended before the job did, with {status}"), false)
    }

    /// Tells the process to end, and does not wait for it.
    fn disconnect(&mut self) {
        // It must be able to react.
        self.turns.iter().for_each(JobTurns::release);
        self.requests = None;
        match &mut self.process {
            // It asks its command to end. If it ended itself now, the command would be killed
            // without having been asked, and nothing could wait for it, or for its ranks.
            _ if self.has_processes => {}
            Process::Kept(process) => process.end(),
            Process::Plain(process) => drop(process.kill()),
        }
    }

    /// Ends the process and waits for it. Fails if the job has not taken its turns.
    fn end(&mut self) -> Result<(), Error> {
        self.disconnect();
        // It may write more than its pipe holds.
        while self.replies.fill().unwrap_or(false) {}
        let _ = self.process.child().wait();
        self.turns.take().map_or(Ok(()), |turns| turns.leave(&self.name))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// All jobs of a run. Dropping them ends them and waits for them.
pub(crate) struct Jobs {
    pub(crate) jobs: Vec<Job>,
    /// The table of their turns, if they take any.
    pub(crate) turns: Option<Turns>,
    /// When the jobs that have not ended are cut off, until that is done.
    pub(crate) limit: Option<Instant>,
}

impl Jobs {
    /// Starts the processes of all jobs and waits until all are ready.
    pub(crate) fn start(
        program: &Path,
        orders: &[Order],
        turns: Option<Turns>,
        cancel: &AtomicBool,
    ) -> Result<Jobs, Error> {
        let mut jobs = Jobs { jobs: Vec::new(), turns, limit: None };
        for order in orders {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let turns = jobs.turns.as_ref().map(|turns| turns.enter(order)).transpose()?;
            jobs.jobs.push(Job::start(program, order, turns).map_err(|why| cancelled_or(why, cancel))?);
        }
        jobs.wait_until(cancel, None, None, |jobs| jobs.iter().all(|job| job.threads.is_some()).then_some(()))?;
        jobs.jobs.iter().try_for_each(Job::bind)?;
        Ok(jobs)
    }

    /// Sends a request to all endless jobs.
    pub(crate) fn send_to_endless(&mut self, request: Request) -> Result<(), Error> {
        self.jobs.iter_mut().filter(|job| job.endless).try_for_each(|job| job.send(&request))
    }

    /// Starts the endless jobs that arrive at the beginning, ahead of the others.
    pub(crate) fn start_endless_early(&mut self) -> Result<(), Error> {
        let mut early = self.jobs.iter_mut().filter(|job| job.starts_early());
        early.try_for_each(|job| job.go(cosched::now()))
    }

    /// Starts the jobs that have arrived by now, in a run that began at `start`. Endless jobs begin
    /// to count. Returns when the next job arrives.
    pub(crate) fn start_arrived(&mut self, start: Instant) -> Result<Option<Instant>, Error> {
        let since = start.elapsed();
        for job in self.jobs.iter_mut().filter(|job| !job.started && job.arrival <= since) {
            job.started = true;
            if !job.starts_early() {
                job.go(cosched::now())?;
            }
            if job.endless {
                job.send(&Request::Count)?;
            }
        }
        let next = self.jobs.iter().filter(|job| !job.started).map(|job| job.arrival).min();
        Ok(next.map(|next| start + next))
    }

    /// Ends endless jobs, including those that have not started.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        for job in self.jobs.iter_mut().filter(|job| job.endless && !job.started && !job.arrival.is_zero()) {
            job.go(cosched::now())?;
        }
        self.jobs.iter().filter(|job| job.endless).filter_map(|job| job.turns.as_ref()).for_each(JobTurns::release);
        self.send_to_endless(Request::Stop)
    }

    /// Cuts off the jobs that have not ended and are not endless. Those without rounds have an
    /// empty outcome.
    pub(crate) fn cut_off(&mut self) -> Result<(), Error> {
        self.limit = None;
        for job in self.jobs.iter_mut().filter(|job| !job.endless && job.outcome.is_none()) {
            job.turns.iter().for_each(JobTurns::release);
            if job.counts_rounds {
                job.send(&Request::Stop)?;
            } else {
                let name = job.name.clone();
                job.finish(JobOutcome { job: name, ..JobOutcome::default() })?;
            }
        }
        Ok(())
    }

    /// Ends all jobs.
    ///
    /// # Errors
    /// If one has not taken its turns.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.jobs.iter_mut().for_each(Job::disconnect);
        self.jobs.iter_mut().try_for_each(Job::end)
    }

    /// Receives replies until `done` returns a value, and takes samples meanwhile. In a run that
    /// began at `start`, also starts jobs as they arrive.
    ///
    /// # Errors
    /// If a job fails or its process ends; and within 50 ms after the run was cancelled.
    pub(crate) fn wait_until<T>(
        &mut self,
        cancel: &AtomicBool,
        start: Option<Instant>,
        mut sampler: Option<&mut Sampler>,
        done: impl Fn(&[Job]) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            self.turns.iter_mut().for_each(Turns::look);
            if let Some(answer) = done(&self.jobs) {
                return Ok(answer);
            }
            let next = start.map_or(Ok(None), |start| self.start_arrived(start))?;
            let due = sampler.as_deref_mut().and_then(|sampler| {
                sampler.sample_if_due(Instant::now());
                sampler.due()
            });
            self.receive(cancel, due.into_iter().chain(next).chain(self.limit).min())?;
        }
    }

    /// Lets the jobs run for a while. Errors as [`Jobs::wait_until`].
    pub(crate) fn run_for(&mut self, cancel: &AtomicBool, duration: Duration) -> Result<(), Error> {
        let over = Instant::now() + duration;
        while Instant::now() < over {
            self.receive(cancel, Some(over))?;
        }
        Ok(())
    }

    /// Receives replies. Waits for a short time if there are none, but not beyond `due`.
    fn receive(&mut self, cancel: &AtomicBool, due: Option<Instant>) -> Result<(), Error> {
        let timeout = due.map_or(CANCEL_CHECK, |due| due.saturating_duration_since(Instant::now()).min(CANCEL_CHECK));
        for index in self.wait_for_replies(timeout)? {
            let job = &mut self.jobs[index];
            if !job.receive().map_err(|why| cancelled_or(why, cancel))? {
                return Err(cancelled_or(job.unexpected_end(), cancel));
            }
        }
        if cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Waits for replies, for at most `timeout`. Returns the indices of the jobs that replied.
    fn wait_for_replies(&self, timeout: Duration) -> Result<Vec<usize>, Error> {
        let replies = self.jobs.iter().map(|job| job.replies.descriptor());
        let mut watched: Vec<_> = replies.map(|replies| PollFd::new(replies, PollFlags::IN)).collect();
        match poll(&mut watched, Timespec::try_from(timeout).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(Error::io("cannot wait for the jobs")(why.into())),
        }
        Ok(watched.iter().enumerate().filter(|(_, job)| !job.revents().is_empty()).map(|(index, _)| index).collect())
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        // Tell all jobs to end before waiting for any of them.
        self.jobs.iter_mut().for_each(Job::disconnect);
    }
}

/// A failure after cancellation is reported as cancellation.
fn cancelled_or(why: Error, cancel: &AtomicBool) -> Error {
    if cancel.load(Ordering::Relaxed) { Error::Cancelled } else { why }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    #[test]
    fn a_job_that_cannot_be_sent_a_request_is_ended_and_not_waited_for() {
        let mut process = testing::command("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (requests, replies) = (process.stdin.take(), process.stdout.take().map(MessageReader::new).unwrap());
        fcntl_setfl(requests.as_ref().unwrap(), OFlags::NONBLOCK).unwrap();
        let mut job = Job {
            name: "crew".to_owned(),
            threads: None,
            record: Vec::new(),
            spins: Spins::default(),
            event_logs: Vec::new(),
            outcome: None,
            cut_off: None,
            endless: false,
            counts_rounds: false,
            arrival: Duration::ZERO,
            started: false,
            has_processes: false,
            process: Process::Plain(process),
            id: 0,
            turns: None,
            keeps_running: false,
            requests,
            replies,
        };
        // More than the pipes hold while nothing reads the replies.
        let why = job.send(&"x".repeat(1 << 20)).unwrap_err().to_string();
        assert!(why.contains("cannot be sent a request"), "{why}");
        assert!(job.requests.is_none());
    }
}
