//! The roster of a job: the processes that have joined, and so whether the job is over.
//!
//! It is the beginning of the shared memory. Magic number, number of ranks, namespace, processes
//! and the remover have the same places in all versions of the layout. So a program
//! recognizes the leftovers of a job that has died, whichever version that had.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::FileType;
use rustix::io::Errno;
use sys::files::Folder;
use sys::shared_memory::{Mapping, View};
use wait::process_slot::{Claimant, ProcessSlot};

use crate::error::JoinError;

/// The most ranks of a job.
pub const MOST_RANKS: u32 = 256;

/// "rowlock", for messages, and a byte that no text contains. It depends on the byte order.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"rowlmsg\x81");

/// Places in the header, which is as long as a slot.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const RANKS: usize = 2;
    pub(crate) const LINES: usize = 3;
    pub(crate) const NAMESPACE: usize = 4;
    pub(crate) const LENGTH: usize = 5;
    /// The process that removes the file's name.
    pub(crate) const REMOVER: usize = 6;
    /// The state of the waiting rule, which all ranks change.
    pub(crate) const TEAM: usize = 16;
}

/// Places in a slot. Words that different ranks write are in cache lines of their own.
pub(crate) mod slot {
    pub(crate) const PROCESS: usize = 0;
    pub(crate) const BELL: usize = 16;
    /// A bit for each rank that has written to this one.
    pub(crate) const WRITERS: usize = 32;
    pub(crate) const WORDS: usize = 64;
}

pub(crate) const WORD: usize = size_of::<u64>();
pub(crate) const PAGE: usize = 4096;

/// The length of header and slots in bytes.
pub(crate) fn length(ranks: u32) -> usize {
    place_of_slot(ranks).next_multiple_of(PAGE)
}

/// The place of the slot of a rank in bytes.
pub(crate) fn place_of_slot(rank: u32) -> usize {
    (rank as usize + 1) * slot::WORDS * WORD
}

pub(crate) fn map(file: &File, length: usize) -> io::Result<Arc<Mapping>> {
    Mapping::new(file, NonZeroUsize::new(length).ok_or(Errno::INVAL)?)
}

/// The roster in a file, as one of the processes has mapped it.
#[derive(Debug)]
pub(crate) struct Roster {
    pub(crate) file: File,
    pub(crate) header: View<[AtomicU64]>,
    /// The PID namespace in which the processes identify each other.
    namespace: u64,
    /// By rank.
    processes: Vec<View<ProcessSlot>>,
    /// Removes the file's name. Its slot is retired afterwards.
    remover: View<ProcessSlot>,
}

impl Roster {
    /// Maps the roster in a file, after checking that it is one.
    pub(crate) fn open(file: File) -> Result<Roster, JoinError> {
        let system = JoinError::system("map the shared memory of the job");
        let stat =
            rustix::fs::fstat(&file).map_err(|why| JoinError::system("inspect the shared memory")(why.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(JoinError::Foreign { why: "it is not a regular file" });
        }
        let map = |length: usize| {
            if stat.st_size.unsigned_abs() < length as u64 {
                return Err(JoinError::TOO_SHORT);
            }
            map(&file, length).map_err(&system)
        };
        let header: View<[AtomicU64]> = map(PAGE)?.slice(0, slot::WORDS).ok_or(JoinError::TOO_SHORT)?;
        if header[header::MAGIC].load(Relaxed) != MAGIC {
            return Err(JoinError::Foreign { why: "it does not begin like one" });
        }
        let ranks = u32::try_from(header[header::RANKS].load(Relaxed)).unwrap_or_default();
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(JoinError::NONSENSE);
        }
        let mapping = map(length(ranks))?;
        let process = |rank| mapping.get(place_of_slot(rank) + slot::PROCESS * WORD);
        let processes = (0..ranks).map(process).collect::<Option<_>>().ok_or(JoinError::TOO_SHORT)?;
        let remover = mapping.get(header::REMOVER * WORD).ok_or(JoinError::TOO_SHORT)?;
        let namespace = header[header::NAMESPACE].load(Relaxed);
        Ok(Roster { file, header, namespace, processes, remover })
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.processes.len() as u32
    }

    /// The slot of the process of a rank.
    #[inline]
    pub(crate) fn process(&self, rank: u32) -> &ProcessSlot {
        &self.processes[rank as usize]
    }

    /// The calling process, as the slots identify it.
    pub(crate) fn own_process(&self) -> Claimant {
        Claimant::own(self.namespace)
    }

    /// The process id of a rank, if it means something here.
    pub(crate) fn pid(&self, rank: u32) -> Option<u32> {
        self.process(rank).pid(self.namespace)
    }

    /// The first rank whose process has died, or that was abandoned, with its process id.
    pub(crate) fn lost(&self) -> Option<(u32, u32)> {
        (0..self.ranks()).find_map(|rank| Some((rank, self.process(rank).lost_pid(self.namespace)?)))
    }

    /// Whether all ranks have joined.
    pub(crate) fn is_complete(&self) -> bool {
        self.processes.iter().all(|process| !process.is_free())
    }

    /// Whether nothing more will come of joining: the ranks have all joined, or one has died.
    pub(crate) fn is_over(&self) -> bool {
        self.is_complete() || self.lost().is_some()
    }

    /// Removes the name of the file, if it is still that of this roster. Does nothing if another
    /// process has done so, or is about to: with two of them, one could remove the name of the next
    /// job's file.
    pub(crate) fn remove_name(&self, folder: &Folder, name: &OsStr, path: &Path) -> io::Result<()> {
        let own = self.own_process();
        self.remover.reclaim(self.namespace);
        if !self.remover.claim(own) {
            return Ok(());
        }
        let removed = self.is_at(path).and_then(|is_at| if is_at { folder.remove(name) } else { Ok(()) });
        match removed {
            Ok(()) => self.remover.retire(own),
            Err(_) => self.remover.release(own),
        }
        removed
    }

    /// Whether this path is the name of the file.
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = rustix::fs::fstat(&self.file)?;
        match rustix::fs::lstat(path) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(why) => Err(why.into()),
        }
    }
}
