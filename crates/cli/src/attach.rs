//! `rowlock attach`: shows what a detached job writes, until it has ended.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::Ordering::Acquire;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cosched::{StateError, Table};
use policy::JobId;

use crate::output::print_message;
use crate::signals::Signals;
use crate::spool::{End, Spool};
use crate::stop::{OrStop, Stop};

/// The time between two looks at the output.
const INTERVAL: Duration = Duration::from_millis(20);
/// The most that is read at once, in bytes.
const PIECE: usize = 1 << 16;

/// Copies all output of a job, and ends this process as the job has ended. The job is forgotten
/// then.
pub(crate) fn attach(job: JobId) -> Result<(), Stop> {
    let place = std::path::absolute(cosched::place()).or_failed()?;
    let signals = Signals::catch().or_failed()?;
    let spool = Spool::find(&place).filter(|spool| spool.record(job).is_some());
    let spool = spool.ok_or_else(|| not_detached(job)).or_input()?;
    let mut streams = spool.open(job);
    loop {
        // What was written before the end is read after it was seen.
        let end = spool.record(job).map(|record| record.end());
        copy(&mut streams[0], io::stdout())?;
        copy(&mut streams[1], io::stderr())?;
        match end {
            Some(End::None) => {}
            Some(End::Ended(status, _)) => {
                spool.remove(job);
                ::exec::end_as(status)
            }
            Some(End::Killed) => {
                spool.remove(job);
                return Err(Stop::Failed(anyhow!("the agent of job {job} was killed, and the job with it")));
            }
            None => return Err(Stop::Failed(anyhow!("another `rowlock attach {job}` has seen the end of the job"))),
        }
        if signals.cancel().load(Acquire) {
            print_message(format_args!("rowlock: job {job} goes on; `rowlock kill {job}` ends it"));
            return Err(signals.interruption());
        }
        sleep(INTERVAL);
    }
}

/// Why a job cannot be attached.
fn not_detached(job: JobId) -> anyhow::Error {
    let table = Table::look(&cosched::place()).ok().flatten();
    match table.is_some_and(|(state, _)| state.job(job).is_ok_and(|job| job.agent().is_alive())) {
        true => anyhow!("job {job} is not detached: its output goes to where it was started"),
        false => StateError::Unknown(job).into(),
    }
}

/// Copies what has been added to a file.
fn copy(from: &mut Option<File>, mut to: impl Write) -> Result<(), Stop> {
    let Some(from) = from else { return Ok(()) };
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece).context("cannot read the output of the job").or_failed()? {
            0 => return Ok(()),
            length => {
                let written = to.write_all(&piece[..length]).and_then(|()| to.flush());
                written.context("cannot write the output of the job").or_failed()?;
            }
        }
    }
}
