//! The ranks of a job: their start, their output, and their end.
//!
//! Each rank is a child with a keeper (`sys::containment`), so nothing that it starts survives it
//! or this process. It stays in the process group of this process: what a terminal sends to a group
//! reaches it like a program that a shell has started.
//!
//! Either all ranks start or none remains. They live until all have ended by themselves with exit
//! code 0, or the first has failed: then the others are asked to end, and killed after a grace
//! period. `supervision` has the rules. A service for ranks can report [`failures`](Failure) that
//! exit codes do not tell.

mod failures;
mod relay;
mod supervision;
#[cfg(test)]
pub(crate) mod tests;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::process::Pid;
use sys::containment::{Contained, JobGroup, Manner, contain_in};
use sys::cpus::{AffinityError, bind_in};
use sys::deferred_stops::DeferredStops;
use sys::descriptors::Limit;
use sys::signals::{BlockedSignals, is_ignored, take};

pub use self::failures::{Failure, Failures, Reporter};
use self::relay::{Relay, Stream};
use self::supervision::REQUESTS_TO_END;
pub use self::supervision::{Ended, Listener, TIMED_OUT};

/// How many descriptors the start of a rank takes, and those of all that is no rank.
const DESCRIPTORS_OF_RANK: u64 = 9;
const OTHER_DESCRIPTORS: u64 = 24;

/// This stands for the rank in the name of an output file.
const PLACE_OF_RANK: &[u8] = b"%r";

/// A rank to start.
#[derive(Debug)]
pub struct RankStart {
    /// Its command, which [`Ranks::start`] completes.
    pub command: Command,
    /// The CPUs to which it is bound; `None` leaves it those of this process.
    pub cpus: Option<Vec<u32>>,
}

/// The ranks that get the standard input of this process. The others have an empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// The first rank.
    #[default]
    First,
    /// All ranks, which share it: each byte reaches one of them.
    All,
    /// No rank.
    None,
}

/// The standard output and standard error of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// Those of this process.
    #[default]
    Inherited,
    /// They are relayed to those of this process by whole lines that begin with the rank, as in
    /// `[3] `. A line that is longer than 64 KiB is divided.
    Labelled,
    /// Both go to a file with this path, in which `%r` stands for the rank. An old file is emptied.
    File(PathBuf),
}

impl Output {
    /// Whether so many ranks can have it.
    ///
    /// # Errors
    /// [`StartError::OneFile`].
    pub fn check<E: std::error::Error>(&self, ranks: usize) -> Result<(), StartError<E>> {
        match self {
            Output::File(pattern) if ranks > 1 && path_for(pattern, 0) == *pattern => {
                Err(StartError::OneFile(pattern.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Input and output of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Where standard input goes.
    pub input: Input,
    /// Where output goes.
    pub output: Output,
}

/// Why a job was not started. None of its ranks is left. `E` is why a rank was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError<E: std::error::Error + 'static> {
    /// A rank could not be started.
    #[error("rank {rank}: {why}")]
    Rank {
        /// The rank.
        rank: u32,
        /// The reason.
        #[source]
        why: E,
    },
    /// A rank may not use its CPUs.
    #[error("rank {rank}: {why}")]
    Bind {
        /// The rank.
        rank: u32,
        /// The reason.
        #[source]
        why: AffinityError,
    },
    /// The file for the output of a rank cannot be written.
    #[error("rank {rank}: cannot write its output to {}: {why}", path.display())]
    Output {
        /// The rank.
        rank: u32,
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        #[source]
        why: io::Error,
    },
    /// Several ranks have the same file for their output.
    #[error("the output of all ranks would go to {}: `%r` in its name stands for the rank", .0.display())]
    OneFile(PathBuf),
    /// The ranks need more descriptors than this process may have.
    #[error(
        "cannot start {ranks} ranks: they need {needed} descriptors, and {allowed} are allowed; `ulimit -Hn` sets the \
         limit"
    )]
    Descriptors {
        /// The number of ranks.
        ranks: usize,
        /// How many descriptors the start needs.
        needed: u64,
        /// How many there may be.
        allowed: u64,
    },
    /// A signal with this number has asked for the end before all ranks had started.
    #[error("signal {0} has ended the start")]
    Asked(i32),
    /// This process cannot supervise ranks.
    #[error("cannot prepare the start of ranks: {0}")]
    Prepare(#[from] io::Error),
}

/// The running ranks of a job. When this is dropped, all are ended with everything that they have
/// started.
#[derive(Debug)]
pub struct Ranks {
    ranks: Vec<Rank>,
    relay: Relay,
    /// Dropped last: until then, no signal ends this process.
    signals: BlockedSignals,
    started: Instant,
}

#[derive(Debug)]
struct Rank {
    process: Contained,
    ended: Option<ExitStatus>,
    /// Whether it was stopped as by a terminal and has not been continued since.
    has_stopped: bool,
}

impl Ranks {
    /// Starts all ranks in these control groups; if one cannot start, ends the others. `spawn` is
    /// given the number of a rank, from 0, and its command with its standard streams and its CPUs.
    ///
    /// Raises the limit of descriptors of this process, and not that of ranks. Blocks the signals
    /// of [`forwarded`](sys::signals::forwarded) on the calling thread, which must be the only one,
    /// and so on those that it starts later, as long as the ranks exist. If it has
    /// [blocked requests](block_requests_to_end), it passes them on. Blocks until all ranks have
    /// executed their program.
    ///
    /// # Errors
    /// If a rank cannot be started, with its number, or if a signal asks for the end before the
    /// last one is started.
    pub fn start<E: std::error::Error>(
        ranks: Vec<RankStart>,
        io: &Io,
        groups: &[&JobGroup],
        requests: Option<BlockedSignals>,
        mut spawn: impl FnMut(u32, &mut Command) -> Result<Child, E>,
    ) -> Result<Ranks, StartError<E>> {
        let signals = BlockedSignals::for_start_after(requests)?;
        let count = ranks.len();
        let limit = Limit::raise();
        require_descriptors(count, limit)?;
        // All that can be known to fail, fails before the first rank starts.
        let files = open_files(&io.output, count)?;
        let mut started = Ranks { ranks: Vec::new(), relay: Relay::none(), signals, started: Instant::now() };
        let mut prepared = Vec::new();
        for ((rank, RankStart { mut command, cpus }), file) in (0..).zip(ranks).zip(files) {
            let lifeline = contain_in(&mut command, Manner::Rank, groups)?;
            started.signals.unblock_in(&mut command);
            limit.restore_in(&mut command);
            cpus.map_or(Ok(()), |cpus| bind_in(&mut command, &cpus)).map_err(|why| StartError::Bind { rank, why })?;
            set_streams(&mut command, rank, io, file)?;
            prepared.push((rank, command, lifeline));
        }
        let mut streams = [Vec::new(), Vec::new()];
        let deferred = DeferredStops::new()?;
        for (rank, mut command, lifeline) in prepared {
            // The terminal has sent it to the ranks that are there, but not to the later ones. If
            // it comes after the last one has started, the supervision handles it.
            if let Some(number) = take_request_to_end()? {
                return Err(StartError::Asked(number));
            }
            let mut child = spawn(rank, &mut command).map_err(|why| StartError::Rank { rank, why })?;
            streams[0].extend(child.stdout.take().map(|pipe| Stream::new(rank, pipe.into())));
            streams[1].extend(child.stderr.take().map(|pipe| Stream::new(rank, pipe.into())));
            started.ranks.push(Rank { process: Contained::new(child, lifeline), ended: None, has_stopped: false });
        }
        drop(deferred);
        if io.output == Output::Labelled {
            started.relay = Relay::start(streams)?;
        }
        Ok(started)
    }

    /// The process that keeps each rank, in their order: the rank and all that it has started are
    /// its descendants. An id is valid as long as this exists and its rank has not ended.
    pub fn keepers(&self) -> Vec<Pid> {
        self.ranks.iter().map(|rank| rank.process.id()).collect()
    }

    /// Tells all ranks to end that have not ended yet, and does not wait for that.
    fn end(&mut self) {
        self.ranks.iter_mut().filter(|rank| rank.ended.is_none()).for_each(|rank| rank.process.end());
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        // All at once: each alone may take the grace period.
        self.end();
    }
}

/// Blocks the signals that ask this process to end, for [`Ranks::start`]: so it can undo what it
/// has prepared.
///
/// # Errors
/// If they cannot be blocked.
pub fn block_requests_to_end() -> io::Result<BlockedSignals> {
    BlockedSignals::new(&requests_to_end().collect::<Vec<_>>())
}

/// The signals that ask this process to end, without those that it ignores.
fn requests_to_end() -> impl Iterator<Item = i32> {
    REQUESTS_TO_END.into_iter().filter(|&number| !is_ignored(number))
}

/// Fetches a blocked signal that has asked this process to end.
fn take_request_to_end() -> io::Result<Option<i32>> {
    for number in requests_to_end() {
        if take(number)? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

fn require_descriptors<E: std::error::Error>(ranks: usize, limit: Limit) -> Result<(), StartError<E>> {
    let needed = OTHER_DESCRIPTORS + DESCRIPTORS_OF_RANK * ranks as u64;
    match limit.highest().filter(|&allowed| allowed < needed) {
        Some(allowed) => Err(StartError::Descriptors { ranks, needed, allowed }),
        None => Ok(()),
    }
}

fn set_streams(command: &mut Command, rank: u32, io: &Io, file: Option<File>) -> io::Result<()> {
    let has_input = match io.input {
        Input::First => rank == 0,
        Input::All => true,
        Input::None => false,
    };
    command.stdin(if has_input { Stdio::inherit() } else { Stdio::null() });
    match (file, &io.output) {
        (Some(file), _) => command.stdout(file.try_clone()?).stderr(file),
        (None, Output::Labelled) => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        (None, _) => command.stdout(Stdio::inherit()).stderr(Stdio::inherit()),
    };
    Ok(())
}

/// Opens a file for each rank if there are to be any.
fn open_files<E: std::error::Error>(output: &Output, count: usize) -> Result<Vec<Option<File>>, StartError<E>> {
    let Output::File(pattern) = output else { return Ok((0..count).map(|_| None).collect()) };
    let open = |rank: u32| {
        let path = path_for(pattern, rank);
        open_emptied(&path).map(Some).map_err(|why| StartError::Output { rank, path, why })
    };
    output.check(count)?;
    (0..).take(count).map(open).collect()
}

fn open_emptied(path: &Path) -> io::Result<File> {
    let file = sys::files::append(path)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// The path with the rank in place of each `%r`.
fn path_for(pattern: &Path, rank: u32) -> PathBuf {
    let mut path: Vec<u8> = Vec::new();
    let mut rest = pattern.as_os_str().as_bytes();
    while let Some(&first) = rest.first() {
        if let Some(after) = rest.strip_prefix(PLACE_OF_RANK) {
            path.extend_from_slice(rank.to_string().as_bytes());
            rest = after;
        } else {
            path.push(first);
            rest = &rest[1..];
        }
    }
    OsString::from_vec(path).into()
}
