//! The processes of a run's jobs, as the run sees them: started, spoken to, and ended whatever happens.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use policy::record::RecordedStep;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use scenario::result::JobOutcome;
use sys::process::{RequestsToEnd, end_with_this_thread};

use crate::error::Error;
use crate::event_log::EventLog;
use crate::protocol::JOB;
use crate::protocol::{Failure, MessageReader, Order, Reply, Request, Task, send};
use crate::timeline::Sampler;

/// How often the run looks whether it has been cancelled.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a supervisor may take to end what its command has started: a little more than it allows itself.
const ENDING: Duration = Duration::from_secs(6);

/// The process of one job.
pub(crate) struct Job {
    pub(crate) name: String,
    /// The threads that compute, once it is ready.
    pub(crate) threads: Option<Vec<i32>>,
    /// What was asked of its waiting rule and decided, where that is taken down.
    pub(crate) record: Vec<RecordedStep>,
    /// What its threads took down of themselves, where they did.
    pub(crate) event_logs: Vec<EventLog>,
    /// What came out, once it has finished.
    pub(crate) outcome: Option<JobOutcome>,
    /// Whether it goes on until it is told to stop.
    pub(crate) endless: bool,
    /// When it is let go, counted from the beginning of the run.
    pub(crate) arrives: Duration,
    /// Whether it has been.
    pub(crate) has_begun: bool,
    /// The command line, where the process is the supervisor of one.
    pub(crate) command: Option<String>,
    process: Child,
    /// Nothing once it has been closed, which tells the job to end.
    requests: Option<ChildStdin>,
    replies: MessageReader<ChildStdout, Reply>,
}

impl Job {
    /// Starts the process that carries out `order`.
    fn start(program: &Path, order: &Order) -> Result<Job, Error> {
        let name = order.job.clone();
        let failed = |source| Error::Start { job: name.clone(), program: program.to_owned(), source };
        let mut command = Command::new(program);
        // The name is for whoever looks at a list of processes.
        command.args([JOB, &name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // The structure of its pipeline is the scenario's, whatever whoever started us wants of pipelines of their own.
        command.env_remove(pipeline::environment::STRUCTURE);
        end_with_this_thread(&mut command, RequestsToEnd::Ignore);
        if matches!(order.task, Task::Command { .. }) {
            // Whoever kills the run's whole group must leave somebody to end what the command has started.
            command.process_group(0);
        }
        let mut process = command.spawn().map_err(failed)?;
        let (requests, replies) = (process.stdin.take(), process.stdout.take().map(MessageReader::new));
        let Some(replies) = replies else { return Err(failed(std::io::ErrorKind::BrokenPipe.into())) };
        let (endless, command) = match &order.task {
            Task::Cpu { work: None, .. } => (true, None),
            Task::Command { argv } => (false, Some(shortened(argv.join(" ")))),
            _ => (false, None),
        };
        let (threads, record, event_logs, outcome) = (None, Vec::new(), Vec::new(), None);
        let (arrives, has_begun) = (Duration::ZERO, false);
        let mut job = Job {
            name,
            threads,
            record,
            event_logs,
            outcome,
            endless,
            arrives,
            has_begun,
            command,
            process,
            requests,
            replies,
        };
        job.send(order)?;
        Ok(job)
    }

    /// The id of its process.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Tells the job.
    pub(crate) fn request(&mut self, request: Request) -> Result<(), Error> {
        self.send(&request)
    }

    fn send(&mut self, value: &impl serde::Serialize) -> Result<(), Error> {
        // A pipe is broken when the process has died; it may have said why.
        match self.requests.as_ref().map(|to| send(to, value)) {
            Some(Ok(())) => Ok(()),
            _ => self.hear_until_the_end(),
        }
    }

    fn hear_until_the_end(&mut self) -> Result<(), Error> {
        while self.hear()? {}
        Err(self.died())
    }

    /// Takes in what the job says, waiting for it where there is nothing. False at the end of its output.
    fn hear(&mut self) -> Result<bool, Error> {
        let unheard = |job: &Job, source| Error::Io { what: format!("job `{}`: cannot hear it", job.name), source };
        let more = self.replies.fill().map_err(|why| unheard(self, why))?;
        while let Some(reply) = self.replies.pop() {
            match reply.map_err(|why| unheard(self, why))? {
                Reply::Ready { threads } => self.threads = Some(threads),
                Reply::Recorded(record) => self.record = record,
                Reply::EventLog(piece) => self.keep(piece),
                Reply::Finished(outcome) => self.outcome = Some(outcome),
                Reply::Failed(failure) => return Err(self.failed(failure)),
            }
        }
        Ok(more)
    }

    fn keep(&mut self, piece: EventLog) {
        match self.event_logs.last_mut().filter(|log| log.number == piece.number) {
            Some(log) => log.events.extend(piece.events),
            None => self.event_logs.push(piece),
        }
    }

    fn failed(&self, failure: Failure) -> Error {
        let job = self.name.clone();
        match failure {
            Failure::ThreadRefused { number, threads, why } => Error::ThreadRefused { job, number, threads, why },
            Failure::CommandFailed { status, stderr } => {
                Error::CommandFailed { job, command: self.command.clone().unwrap_or_default(), status, stderr }
            }
            Failure::Other { message } => Error::Job { job, message },
        }
    }

    /// The process ended although nobody had told it to.
    fn died(&mut self) -> Error {
        let status = self.process.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        Error::Died { job: self.name.clone(), status }
    }

    /// Tells the process to end, and does not wait for it.
    fn dismiss(&mut self) {
        self.requests = None;
        // A supervisor has to end its command first.
        if self.command.is_none() {
            let _ = self.process.kill();
        }
    }
}

impl Drop for Job {
    /// Ends the process, and returns when it is gone.
    fn drop(&mut self) {
        self.dismiss();
        let last = Instant::now() + ENDING;
        // A supervisor has closed its output when it has ended.
        while self.command.is_some() {
            let left = timespec(last.saturating_duration_since(Instant::now()));
            let speaks = poll(&mut [PollFd::new(self.replies.descriptor(), PollFlags::IN)], Some(&left));
            if !speaks.is_ok_and(|number| number > 0) || !self.replies.fill().unwrap_or(false) {
                break;
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The beginning of a command line, enough to know it by.
fn shortened(command: String) -> String {
    const LONGEST: usize = 200;
    match command.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", &command[..end]),
        None => command,
    }
}

/// All jobs of a run. Dropping them ends them, and returns when all are gone.
pub(crate) struct Jobs(pub(crate) Vec<Job>);

impl Jobs {
    /// Starts the processes of all jobs and waits until every one is ready.
    pub(crate) fn start(program: &Path, orders: &[Order], cancel: &AtomicBool) -> Result<Jobs, Error> {
        let mut jobs = Jobs(Vec::new());
        for order in orders {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            jobs.0.push(Job::start(program, order).map_err(|why| unless_cancelled(why, cancel))?);
        }
        jobs.attend(cancel, None, None, |jobs| jobs.iter().all(|job| job.threads.is_some()).then_some(()))?;
        Ok(jobs)
    }

    /// Tells all endless jobs.
    pub(crate) fn request_endless(&mut self, request: Request) -> Result<(), Error> {
        self.0.iter_mut().filter(|job| job.endless).try_for_each(|job| job.request(request))
    }

    /// Lets endless jobs that are there from the beginning run ahead.
    pub(crate) fn run_ahead(&mut self) -> Result<(), Error> {
        let ahead = self.0.iter_mut().filter(|job| job.endless && job.arrives.is_zero());
        ahead.into_iter().try_for_each(|job| job.request(Request::Go))
    }

    /// Lets the jobs go that have arrived by now, in a run that began then; endless ones count from there. Returns when the next
    /// one arrives.
    pub(crate) fn let_arrive(&mut self, start: Instant) -> Result<Option<Instant>, Error> {
        let since = start.elapsed();
        for job in self.0.iter_mut().filter(|job| !job.has_begun && job.arrives <= since) {
            job.has_begun = true;
            if !(job.endless && job.arrives.is_zero()) {
                job.request(Request::Go)?;
            }
            if job.endless {
                job.request(Request::Count)?;
            }
        }
        let next = self.0.iter().filter(|job| !job.has_begun).map(|job| job.arrives).min();
        Ok(next.map(|next| start + next))
    }

    /// Ends endless jobs, those too that have not begun.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        for job in self.0.iter_mut().filter(|job| job.endless && !job.has_begun && !job.arrives.is_zero()) {
            job.request(Request::Go)?;
        }
        self.request_endless(Request::Stop)
    }

    /// Listens to the jobs until `enough` has an answer, and takes samples meanwhile; in a run that began at `start`, lets jobs go as
    /// they arrive.
    ///
    /// # Errors
    /// When a job fails or its process ends, and within 50 ms of being cancelled.
    pub(crate) fn attend<T>(
        &mut self,
        cancel: &AtomicBool,
        start: Option<Instant>,
        mut sampler: Option<&mut Sampler>,
        enough: impl Fn(&[Job]) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            if let Some(answer) = enough(&self.0) {
                return Ok(answer);
            }
            let next = start.map_or(Ok(None), |start| self.let_arrive(start))?;
            let due = sampler.as_deref_mut().and_then(|sampler| {
                sampler.look();
                sampler.due()
            });
            self.listen(cancel, due.into_iter().chain(next).min())?;
        }
    }

    /// Lets the jobs run for a while. Errors as [`Jobs::attend`].
    pub(crate) fn linger(&mut self, cancel: &AtomicBool, duration: Duration) -> Result<(), Error> {
        let over = Instant::now() + duration;
        while Instant::now() < over {
            self.listen(cancel, Some(over))?;
        }
        Ok(())
    }

    /// Takes in what jobs say, waiting for it a moment and not beyond `due`.
    fn listen(&mut self, cancel: &AtomicBool, due: Option<Instant>) -> Result<(), Error> {
        let patience = due.map_or(PATIENCE, |due| due.saturating_duration_since(Instant::now()).min(PATIENCE));
        for index in self.watch(patience)? {
            let job = &mut self.0[index];
            match job.hear() {
                Ok(true) => {}
                Ok(false) => return Err(unless_cancelled(job.died(), cancel)),
                Err(why) => return Err(unless_cancelled(why, cancel)),
            }
        }
        if cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Waits until jobs have something to say, but no longer than `patience`; which ones.
    fn watch(&self, patience: Duration) -> Result<Vec<usize>, Error> {
        let replies = self.0.iter().map(|job| job.replies.descriptor());
        let mut watched: Vec<_> = replies.map(|replies| PollFd::new(replies, PollFlags::IN)).collect();
        match poll(&mut watched, Some(&timespec(patience))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(Error::io("cannot wait for the jobs")(why.into())),
        }
        Ok(watched.iter().enumerate().filter(|(_, job)| !job.revents().is_empty()).map(|(index, _)| index).collect())
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        // All are told before any is waited for.
        self.0.iter_mut().for_each(Job::dismiss);
    }
}

/// A failure that came of being cancelled is no failure of its own.
fn unless_cancelled(why: Error, cancel: &AtomicBool) -> Error {
    if cancel.load(Ordering::Relaxed) { Error::Cancelled } else { why }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX), tv_nsec: duration.subsec_nanos().into() }
}
