//! `rowlock attach`: shows the output of a detached job until that has ended.

use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Acquire;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, anyhow};
use cosched::StateError;
use policy::JobId;
use rustix::process::{Signal, geteuid};
use sys::files::is_locked;

use crate::jobs::look;
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
    let to: [&mut dyn Write; 2] = [&mut io::stdout(), &mut io::stderr()];
    match follow(&spool, job, to, signals.cancel(), || sleep(INTERVAL))? {
        Cause::Ended(status) => {
            spool.remove(job);
            ::exec::end_as(status)
        }
        Cause::Killed => {
            spool.remove(job);
            Err(Stop::Failed(anyhow!("the agent of job {job} was killed, and the job with it")))
        }
        Cause::Forgotten => Err(Stop::Failed(anyhow!("another `rowlock attach {job}` has seen the end of the job"))),
        Cause::Cancelled => {
            if spool.record(job).is_some_and(|record| matches!(record.end(), End::None)) {
                print_message(format_args!("rowlock: job {job} goes on; `rowlock kill {job}` ends it"));
            }
            Err(signals.interruption())
        }
        // How the job ends is not known: this ends as `cat` would.
        Cause::NoReader => ::exec::end_as(ExitStatus::from_raw(Signal::PIPE.as_raw())),
    }
}

/// Why a job cannot be attached.
fn not_detached(job: JobId) -> anyhow::Error {
    let table = look().ok().flatten();
    let found = table.as_ref().and_then(|(state, _)| state.job(job).ok()).filter(|job| job.agent().is_alive());
    let own = geteuid().as_raw();
    match found.map(|found| (found, found.user().filter(|&user| user != own))) {
        Some((_, Some(user))) => anyhow!("job {job} belongs to user {user}, who has its output"),
        Some((found, _)) if found.is_queued() => StateError::Queued(job).into(),
        Some(_) => anyhow!("job {job} is not detached: its output goes to where it was started"),
        None => StateError::Unknown(job).into(),
    }
}

/// Why nothing more is copied.
#[derive(Debug, PartialEq, Eq)]
enum Cause {
    /// The job has ended so.
    Ended(ExitStatus),
    /// Its agent was killed.
    Killed,
    /// Another process has removed it.
    Forgotten,
    /// A signal has asked for the end.
    Cancelled,
    /// The reader of the output is gone, like `head`.
    NoReader,
}

/// Copies the output of a job as long as there can be more.
fn follow(
    spool: &Spool,
    job: JobId,
    mut to: [&mut dyn Write; 2],
    is_cancelled: &AtomicBool,
    mut pause: impl FnMut(),
) -> Result<Cause, Stop> {
    let mut streams = [None, None];
    loop {
        let end = spool.record(job).map(|record| record.end());
        spool.open(job, &mut streams);
        // The ranks of a killed agent have a moment to end, and may write meanwhile.
        let is_written = matches!(end, Some(End::Killed)) && streams.iter().flatten().any(is_locked);
        // Output from before the end is read after the end was seen.
        for (from, to) in streams.iter_mut().zip(&mut to) {
            let copied = from.as_mut().map_or(Ok(ControlFlow::Continue(())), |from| copy(from, to, is_cancelled));
            if let ControlFlow::Break(cause) = copied? {
                return Ok(cause);
            }
        }
        match end {
            Some(End::Ended(status, _)) => return Ok(Cause::Ended(status)),
            Some(End::Killed) if !is_written => return Ok(Cause::Killed),
            Some(End::None | End::Killed) => pause(),
            None => return Ok(Cause::Forgotten),
        }
    }
}

/// Copies everything that has been added to a file, which may grow as fast as it is copied.
fn copy(from: &mut impl Read, to: &mut dyn Write, is_cancelled: &AtomicBool) -> Result<ControlFlow<Cause>, Stop> {
    let mut piece = vec![0; PIECE];
    loop {
        if is_cancelled.load(Acquire) {
            return Ok(ControlFlow::Break(Cause::Cancelled));
        }
        let length = match from.read(&mut piece) {
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            read => read.context("cannot read the output of the job").or_failed()?,
        };
        if length == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        match to.write_all(&piece[..length]).and_then(|()| to.flush()) {
            Err(why) if why.kind() == ErrorKind::BrokenPipe => return Ok(ControlFlow::Break(Cause::NoReader)),
            written => written.context("cannot write the output of the job").or_failed()?,
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests write files as they like")]
mod tests {
    use std::fs;
    use std::sync::atomic::Ordering::Release;

    use super::*;
    use crate::spool::Record;
    use crate::spool::tests::{killed, spool};

    const JOB: JobId = JobId(1);

    /// Output whose reading a signal interrupts, which asks for the end.
    struct Interrupted<'a>(&'a AtomicBool);

    impl Read for Interrupted<'_> {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.swap(true, Release), "it is asked to end");
            Err(ErrorKind::Interrupted.into())
        }
    }

    /// A pipe without a reader.
    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_request_to_end_is_obeyed_also_if_it_interrupts_a_read() {
        let is_cancelled = AtomicBool::new(false);
        let copied = copy(&mut Interrupted(&is_cancelled), &mut io::sink(), &is_cancelled);
        assert_eq!(copied.unwrap(), ControlFlow::Break(Cause::Cancelled));
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error_and_the_job_is_kept() {
        let copied = copy(&mut io::repeat(0), &mut Broken, &AtomicBool::new(false));
        assert_eq!(copied.unwrap(), ControlFlow::Break(Cause::NoReader));
    }

    #[test]
    fn output_that_gets_its_name_later_is_copied() {
        let place = tempfile::tempdir().unwrap();
        let spool = spool(place.path());
        let [out, err] = spool.files().unwrap();
        out.file().write_all(b"late").unwrap();
        let record = Record::new(String::new(), 1);
        spool.add(JOB, &record, [out, err]).unwrap();
        let names = ["1.out", "between"].map(|name| place.path().join(name));
        fs::rename(&names[0], &names[1]).unwrap();
        let name = || {
            fs::rename(&names[1], &names[0]).unwrap();
            spool.set_ended(JOB, record.clone(), ExitStatus::default(), Duration::ZERO).unwrap();
        };
        let mut written = Vec::new();
        let ended = follow(&spool, JOB, [&mut written, &mut Broken], &AtomicBool::new(false), name).unwrap();
        assert_eq!((ended, written.as_slice()), (Cause::Ended(ExitStatus::default()), &b"late"[..]));
    }

    #[test]
    fn output_of_ranks_that_outlive_their_agent_is_copied() {
        let place = tempfile::tempdir().unwrap();
        let spool = spool(place.path());
        let files = spool.files().unwrap();
        let mut inherited = Some(files[0].file().try_clone().unwrap());
        spool.add(JOB, &killed(), files).unwrap();
        let write_and_end = || inherited.take().unwrap().write_all(b"late").unwrap();
        let mut written = Vec::new();
        let to: [&mut dyn Write; 2] = [&mut written, &mut Broken];
        let ended = follow(&spool, JOB, to, &AtomicBool::new(false), write_and_end).unwrap();
        assert_eq!((ended, written.as_slice()), (Cause::Killed, &b"late"[..]));
    }
}
