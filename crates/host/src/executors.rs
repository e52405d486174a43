//! The processes of jobs: one executor for each kind of job, and what they have in common.

pub(crate) mod command;
pub(crate) mod fibers;
pub(crate) mod pipeline;
pub(crate) mod rank;
pub(crate) mod ranks;
pub(crate) mod threads;

use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use policy::Span;
use scenario::result::JobOutcome;
use sys::process::Usage;

use crate::protocol::{Failure, Order, Reply, Request, RequestReader, reply};
use crate::scheduling;

/// Why a run of a job's program failed.
type ProgramError = Box<dyn std::error::Error>;

/// Replies that the job is prepared, with the ids of its computing threads.
fn reply_ready(threads: Vec<i32>) -> Result<(), Failure> {
    reply(&Reply::Ready { process: std::process::id(), threads }).map_err(Failure::io("cannot reply"))
}

/// A time that was read from the clock of requests.
fn begun(at: policy::Instant) -> Instant {
    let now = Instant::now();
    now.checked_sub(cosched::now().since(at).into()).unwrap_or(now)
}

/// The inverse of [`begun`].
fn on_clock_of_requests(at: Instant) -> policy::Instant {
    policy::Instant::from_nanos(cosched::now().as_nanos().saturating_sub(Span::from(at.elapsed()).as_nanos()))
}

/// Waits for the next request. Returns `None` if the run is gone.
fn next_request(requests: &mut RequestReader) -> Result<Option<Request>, Failure> {
    requests.wait().map_err(Failure::io("cannot read from the run"))
}

/// The moment at which a job's program starts.
#[derive(Default)]
struct Start {
    replied: OnceLock<()>,
    at: OnceLock<Instant>,
}

impl Start {
    /// Replies that the job is prepared, with the ids of its computing threads, and waits for its
    /// start. The next threads of the job only wait.
    fn wait(&self, threads: Vec<i32>) -> Instant {
        // If the run is gone, the main thread sees the end of its input and ends the process.
        self.replied.get_or_init(|| drop(reply_ready(threads)));
        *self.at.wait()
    }

    fn set(&self, at: Instant) {
        let _ = self.at.set(at);
    }

    /// The time since then. `None` before it.
    fn elapsed(&self) -> Option<Span> {
        self.at.get().map(|at| at.elapsed().into())
    }
}

/// Runs a job's program, which waits for `start` when it is prepared, on a thread with this name.
/// Returns when the run is gone, or needs the job no more, also while the program is prepared.
fn serve_program(
    order: &Order,
    name: &str,
    program: impl FnOnce() + Send + 'static,
    start: &Start,
    mut requests: RequestReader,
) -> Result<(), Failure> {
    let spawn = || thread::Builder::new().name(name.to_owned()).spawn(program).map(drop);
    scheduling::start(&order.job.attributes, spawn)?.map_err(Failure::io(format!("its {name} cannot be started")))?;
    // Threads that still run are not joined: they end with the process.
    while let Some(request) = next_request(&mut requests)? {
        if let Request::Go(at) = request {
            start.set(begun(at));
        }
    }
    Ok(())
}

/// Runs a job's program once and replies with its outcome. Then repeats it forever if the job keeps
/// running.
fn run_program(
    keep_running: bool,
    first: impl FnOnce() -> Result<JobOutcome, ProgramError>,
    mut again: impl FnMut() -> Result<(), ProgramError>,
) {
    // If the run is gone, the main thread sees the end of its input and ends the process.
    let run = || {
        let _ = reply(&Reply::Finished(first()?.into()));
        if keep_running {
            loop {
                again()?;
            }
        }
        Ok::<_, ProgramError>(())
    };
    reply_failure(run().map_err(|why| Failure::from(why.to_string())));
}

/// Replies if a job's program has failed.
fn reply_failure(result: Result<(), Failure>) {
    if let Err(failure) = result {
        let _ = reply(&Reply::Failed(failure));
    }
}

/// The outcome of a job with this resource usage.
fn outcome(job: &str, completion: Option<Span>, usage: Usage) -> JobOutcome {
    JobOutcome {
        job: job.to_owned(),
        completion_ns: completion,
        cpu_ns: Some(usage.cpu.into()),
        voluntary_switches: Some(usage.voluntary_switches),
        involuntary_switches: Some(usage.involuntary_switches),
        ..JobOutcome::default()
    }
}
