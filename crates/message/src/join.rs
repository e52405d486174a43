//! How a rank finds its job.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use sys::files::{self, Draft, Folder};
use sys::unnamed::UnnamedFile;
use wait::Waiting;

use crate::communicator::Communicator;
use crate::endpoint::Endpoint;
use crate::error::JoinError;
use crate::memory::{self, Memory};
use crate::roster::Roster;
use crate::transport::Transport;

/// The variables by which the ranks of `rowlock prun` find their job.
pub mod environment {
    use std::ffi::OsString;
    use std::path::Path;

    /// The number of the rank.
    pub const RANK: &str = "ROWLOCK_RANK";
    /// The number of ranks.
    pub const RANKS: &str = "ROWLOCK_RANKS";
    /// The path of the shared memory, as [`memory::create`](crate::memory::create) gives it.
    pub const MESSAGES: &str = "ROWLOCK_MESSAGES";
    /// The number of CPUs that the ranks have together. Each may be bound to one of them. If the
    /// variable is not set, or is no number above zero, a rank counts those that it may use itself.
    pub const CPUS: &str = "ROWLOCK_CPUS";

    /// The variables of a rank, for launchers. Without `memory` it cannot join.
    pub fn of_rank(rank: u32, ranks: u32, memory: Option<&Path>) -> impl Iterator<Item = (&'static str, OsString)> {
        let numbers = [(RANK, rank), (RANKS, ranks)].map(|(name, number)| (name, number.to_string().into()));
        numbers.into_iter().chain(memory.map(|path| (MESSAGES, path.into())))
    }
}

/// Whether the environment tells a job: the one that [`join`] joins.
pub fn is_launched() -> bool {
    #[cfg(feature = "mpi")]
    if crate::mpi::is_launched() {
        return true;
    }
    std::env::var_os(environment::MESSAGES).is_some()
}

/// Joins the job that the environment tells: that of `rowlock prun` or, with the feature `mpi` and
/// without such a job, that of a launcher of MPI.
///
/// # Errors
/// If the environment tells no job, or if the rank has joined already.
pub fn join(waiting: Waiting) -> Result<Communicator, JoinError> {
    #[cfg(feature = "mpi")]
    if std::env::var_os(environment::MESSAGES).is_none() && crate::mpi::is_launched() {
        return crate::mpi::join(waiting);
    }
    let unset = |variable| JoinError::Environment { variable, found: "not set".to_owned() };
    let value = |variable| std::env::var_os(variable).ok_or_else(|| unset(variable));
    let number = |variable| {
        let value = value(variable)?;
        let number = value.to_str().and_then(|value| value.parse::<u32>().ok());
        number.ok_or_else(|| JoinError::Environment { variable, found: format!("{value:?}, not a number") })
    };
    let (rank, ranks) = (number(environment::RANK)?, number(environment::RANKS)?);
    let path = value(environment::MESSAGES).map_err(|unset| match ranks {
        1..=memory::MOST_RANKS => unset,
        _ => JoinError::Ranks { ranks },
    })?;
    let path = Path::new(&path);
    let file = files::open_existing(path);
    let file = file.map_err(JoinError::system(format!("open the shared memory {}", path.display())))?;
    let memory = Memory::open(file)?;
    if memory.roster.ranks() != ranks {
        return Err(JoinError::OtherRanks { rank, expected: ranks, found: memory.roster.ranks() });
    }
    let cpus = std::env::var(environment::CPUS).ok().and_then(|cpus| cpus.parse().ok()).filter(|&cpus| cpus > 0);
    world(Arc::new(memory), rank, cpus.map_or(waiting, |cpus| waiting.or_cpus(cpus)))
}

fn world(memory: Arc<Memory>, rank: u32, waiting: Waiting) -> Result<Communicator, JoinError> {
    Ok(claimed(Transport::claim(memory, rank)?, rank, waiting))
}

fn claimed(transport: Transport, rank: u32, waiting: Waiting) -> Communicator {
    Communicator::world(Endpoint::new(transport, rank, waiting))
}

/// A job whose ranks are threads of this process.
///
/// # Errors
/// If there is no memory, or the number of ranks is out of range.
pub fn threads(ranks: u32, waiting: Waiting) -> Result<Vec<Communicator>, JoinError> {
    if !(1..=memory::MOST_RANKS).contains(&ranks) {
        return Err(JoinError::Ranks { ranks });
    }
    let created = memory::create(ranks).and_then(|file: UnnamedFile| file.file().try_clone());
    let file = created.map_err(JoinError::system("create shared memory without a name"))?;
    // One mapping for all: tools that look for races compare addresses.
    let memory = Arc::new(Memory::open(file)?);
    (0..ranks).map(|rank| world(memory.clone(), rank, waiting)).collect()
}

/// Joins the job of this name, for programs that start their ranks themselves. The name is that of
/// a file, preferably below `/dev/shm`, which the first rank creates and the last one removes.
/// Ranks that have not joined are waited for by those that need them.
///
/// If a job of this name has died before all its ranks had joined, the next job removes what it
/// left, whichever number of ranks or version of this library it had.
///
/// # Errors
/// If the rank has joined already, or if the file cannot be created or is something else.
pub fn join_named(path: impl AsRef<Path>, rank: u32, ranks: u32, waiting: Waiting) -> Result<Communicator, JoinError> {
    let path = path.as_ref();
    let system = JoinError::system(format!("share the memory {}", path.display()));
    if !(1..=memory::MOST_RANKS).contains(&ranks) {
        return Err(JoinError::Ranks { ranks });
    }
    if rank >= ranks {
        return Err(JoinError::NoSuchRank { rank, ranks });
    }
    let name = path.file_name().ok_or_else(files::folder_error).map_err(&system)?;
    let folder = Folder::open(path.parent().unwrap_or(Path::new(""))).map_err(&system)?;
    let (memory, transport) = loop {
        let file = match files::open_existing(path) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => {
                let draft = Draft::create(&folder, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).map_err(&system)?;
                memory::begin_in(draft.file(), ranks)?;
                let memory = Arc::new(Memory::open(draft.file().try_clone().map_err(&system)?)?);
                // Before others can find it: a job without a rank would never be over.
                let transport = Transport::claim(memory.clone(), rank)?;
                match draft.give_new_name(name) {
                    Ok(()) => break (memory, transport),
                    // Another rank has created it.
                    Err(why) if why.kind() == ErrorKind::AlreadyExists => continue,
                    Err(why) => return Err(system(why)),
                }
            }
            Err(why) => return Err(system(why)),
        };
        let roster = Roster::open(file)?;
        // Before anything else is compared: a job of another version or size may be over as well.
        if roster.is_over() {
            roster.remove_name(&folder, name, path).map_err(&system)?;
            continue;
        }
        let memory = Arc::new(Memory::of(roster)?);
        if memory.roster.ranks() != ranks {
            return Err(JoinError::OtherRanks { rank, expected: ranks, found: memory.roster.ranks() });
        }
        break (memory.clone(), Transport::claim(memory, rank)?);
    };
    let world = claimed(transport, rank, waiting);
    if memory.roster.is_complete() {
        memory.roster.remove_name(&folder, name, path).map_err(&system)?;
    }
    Ok(world)
}
