//! A world in which each job is started by `rowlock prun`, to measure how long that takes.
//!
//! A run ends when all jobs have started, which each says by its first output. The jobs have a
//! table of their own, so that the user's jobs are not touched.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use measure::world::{Executed, Failure, Worlds};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use scenario::result::{JobOutcome, MachineOutcome, Outcome, World};
use scenario::{JobKind, Setting, Span};
use sys::files::TemporaryFolder;
use sys::process::{RequestsToEnd, end_with_this_thread};

/// The time between two checks for cancellation.
const CANCEL_CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a job may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts jobs by this program.
#[derive(Debug)]
pub(super) struct Starts {
    program: PathBuf,
}

impl Starts {
    /// Starts jobs by the program that runs now.
    pub(super) fn by_this_program() -> anyhow::Result<Starts> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Ok(Starts { program })
    }

    /// Starts the commands of a setting, and returns the time that each has taken.
    fn measure(&self, setting: &Setting, cancel: &AtomicBool) -> anyhow::Result<Vec<JobOutcome>> {
        let place = TemporaryFolder::create(&cosched::place(), "rowlock-starts-", &[]);
        let place = place.context("cannot create a table of jobs")?;
        let began = Instant::now();
        let mut started = Vec::new();
        for (name, job) in setting.jobs_with_copies() {
            let JobKind::Command { argv, threads, .. } = &job.kind else { continue };
            started.push(Started::new(&self.program, place.path(), name, *threads, argv)?);
        }
        while started.iter().any(|job| job.after.is_none()) {
            wait_for_output(&mut started, began).context("cannot wait for jobs")?;
            if cancel.load(Ordering::Relaxed) || began.elapsed() > PATIENCE {
                return Err(anyhow!("a job has not started within {PATIENCE:?}"));
            }
        }
        Ok(started.iter().map(Started::outcome).collect())
    }
}

impl Worlds for Starts {
    fn run(&self, _: World, setting: &Setting, _: u64, _: bool, cancel: &AtomicBool) -> Result<Executed, Failure> {
        let jobs = self.measure(setting, cancel).map_err(|why| match cancel.load(Ordering::Relaxed) {
            true => Failure::Cancelled,
            false => Failure::Failed(why.into()),
        })?;
        let machine = MachineOutcome { cpus: sys::cpus::usable(), ..MachineOutcome::default() };
        Ok(Executed { outcome: Outcome { jobs, machine }, ..Executed::default() })
    }

    fn measure_command(&self, _: &[String], _: &AtomicBool) -> Result<Span, Failure> {
        Err(Failure::Failed("no command is measured alone here".into()))
    }

    fn workers(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }
}

/// A job that was started. When this is dropped, it ends.
struct Started {
    name: String,
    prun: Child,
    /// The time of its first output after the beginning of the run.
    after: Option<Duration>,
}

impl Started {
    fn new(program: &Path, table: &Path, name: String, ranks: u32, argv: &[String]) -> anyhow::Result<Started> {
        let mut command = Command::new(program);
        command.args(["prun", "--wait", "none", "-n", &ranks.to_string(), "--"]).args(argv);
        command.env(cosched::VARIABLE, table).env_remove("ROWLOCK_JOB");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        end_with_this_thread(&mut command, RequestsToEnd::Obey);
        let prun = command.spawn().with_context(|| format!("cannot start {} for job {name}", program.display()))?;
        Ok(Started { name, prun, after: None })
    }

    fn outcome(&self) -> JobOutcome {
        JobOutcome { job: self.name.clone(), start_ns: self.after.map(Span::from), ..JobOutcome::default() }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.prun), Signal::TERM);
        let _ = self.prun.wait();
    }
}

/// Waits for the first output of some job, or for a short time.
fn wait_for_output(jobs: &mut [Started], began: Instant) -> anyhow::Result<()> {
    let silent: Vec<usize> = (0..jobs.len()).filter(|&job| jobs[job].after.is_none()).collect();
    let outputs = silent.iter().filter_map(|&job| jobs[job].prun.stdout.as_ref());
    let mut watched: Vec<_> = outputs.map(|output| PollFd::new(output, PollFlags::IN)).collect();
    match poll(&mut watched, Some(&CANCEL_CHECK)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(why) => return Err(io::Error::from(why).into()),
    }
    let after = began.elapsed();
    let found: Vec<_> = watched.iter().map(PollFd::revents).collect();
    for (&job, found) in silent.iter().zip(found) {
        if found.contains(PollFlags::IN) {
            jobs[job].after = Some(after);
        } else if !found.is_empty() {
            let status = jobs[job].prun.wait()?;
            return Err(anyhow!("job {} has ended without output, with {status}", jobs[job].name));
        }
    }
    Ok(())
}
