//! The shared memory of a job: a file that its ranks map.
//!
//! ```text
//!   header | slot of rank 0 | slot of rank 1 ... | ring 0 to 0 | ring 1 to 0 | ... | ring 0 to 1
//!   ...
//! ```
//!
//! The file is sparse: header and slots have memory from the beginning, and a ring gets its memory
//! from both of its ranks before their first access. So a full file system is an error and not a
//! SIGBUS. Which rings have been used is told by a bit for each writer in the slot of the reader.
//!
//! The memory consists of atomic integers only, and its content is never trusted: see the module
//! `ring`. Sizes are checked once against the length of the file, and copied.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{FallocateFlags, FileType};
use rustix::io::{Errno, retry_on_intr};
use sys::files::Folder;
use sys::shared_memory::{Mapping, View};
use sys::unnamed::UnnamedFile;
use wait::process_slot::{Claimant, ProcessSlot};

use crate::bell::Bell;
use crate::error::JoinError;
use crate::ring::{self, Reader, Writer};
use crate::writers::Writers;

/// The most ranks of a job.
pub const MOST_RANKS: u32 = 256;

/// "rowlock", for messages, and a byte that no text contains. It depends on the byte order.
const MAGIC: u64 = u64::from_ne_bytes(*b"rowlmsg\x81");
/// The version of the layout, incremented for each change.
const VERSION: u64 = 1;
/// The lines of a ring. A pair of ranks that talks takes 64 KiB in each direction.
const LINES: u64 = 1024;
/// The most lines of a ring that another program may have chosen.
const MOST_LINES: u64 = 1 << 16;

/// Places in the header, which is as long as a slot.
mod header {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const RANKS: usize = 2;
    pub(super) const LINES: usize = 3;
    pub(super) const NAMESPACE: usize = 4;
    pub(super) const LENGTH: usize = 5;
    /// One process has removed the file's name.
    pub(super) const REMOVED: usize = 6;
    /// The state of the waiting rule, which all ranks change.
    pub(super) const TEAM: usize = 16;
}

/// Places in a slot. Words that different ranks write are in cache lines of their own.
mod slot {
    pub(super) const PROCESS: usize = 0;
    pub(super) const BELL: usize = 16;
    /// A bit for each rank that has written to this one.
    pub(super) const WRITERS: usize = 32;
    pub(super) const WORDS: usize = 64;
}

const WORD: usize = size_of::<u64>();
/// Rings begin at pages, so that each has memory of its own.
const PAGE: usize = 4096;

/// The sizes of a job's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    ranks: u32,
    lines: usize,
}

impl Layout {
    /// The length of header and slots in bytes.
    fn slots(self) -> usize {
        ((self.ranks as usize + 1) * slot::WORDS * WORD).next_multiple_of(PAGE)
    }

    /// The length of a ring in bytes.
    fn ring(self) -> usize {
        (ring::words(self.lines) * WORD).next_multiple_of(PAGE)
    }

    fn place_of_ring(self, from: u32, to: u32) -> usize {
        self.slots() + (to as usize * self.ranks as usize + from as usize) * self.ring()
    }

    fn length(self) -> usize {
        self.slots() + (self.ranks as usize).pow(2) * self.ring()
    }
}

/// The words of a ring.
#[derive(Debug)]
pub(crate) struct RingWords(View<[AtomicU64]>);

impl Deref for RingWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// The memory of a job, as one of its processes has mapped it.
#[derive(Debug)]
pub(crate) struct Memory {
    layout: Layout,
    mapping: Arc<Mapping>,
    file: File,
    /// The PID namespace in which the processes identify each other.
    namespace: u64,
    header: View<[AtomicU64]>,
    slots: Vec<Slot>,
}

/// The slot of a rank.
#[derive(Debug)]
struct Slot {
    process: View<ProcessSlot>,
    words: View<[AtomicU64]>,
}

/// Creates the memory of a job with so many ranks, without a name, for ranks that find its path in
/// their environment: see [`environment`](crate::environment). It exists as long as this value or
/// a rank.
///
/// # Errors
/// If there is no memory for it, or the number of ranks is zero or above [`MOST_RANKS`].
pub fn create(ranks: u32) -> io::Result<UnnamedFile> {
    let layout = layout(ranks).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
    let file = UnnamedFile::of_length(layout.length() as u64)?;
    begin(file.file(), layout)?;
    Ok(file)
}

/// Gives an empty file the length and content of new memory.
pub(crate) fn begin_in(file: &File, ranks: u32) -> Result<(), JoinError> {
    let layout = layout(ranks)?;
    let begun = file.set_len(layout.length() as u64).and_then(|()| begin(file, layout));
    begun.map_err(JoinError::system("allocate the shared memory of the job"))
}

fn layout(ranks: u32) -> Result<Layout, JoinError> {
    if !(1..=MOST_RANKS).contains(&ranks) {
        return Err(JoinError::Ranks { ranks });
    }
    Ok(Layout { ranks, lines: LINES as usize })
}

fn begin(file: &File, layout: Layout) -> io::Result<()> {
    reserve(file, 0, layout.slots())?;
    let header: View<[AtomicU64]> = map(file, layout.slots())?.slice(0, slot::WORDS).ok_or(Errno::INVAL)?;
    let length = layout.length() as u64;
    for (place, value) in [
        (header::VERSION, VERSION),
        (header::RANKS, layout.ranks.into()),
        (header::LINES, layout.lines as u64),
        (header::NAMESPACE, sys::identity::pid_namespace()),
        (header::LENGTH, length),
        (header::MAGIC, MAGIC),
    ] {
        header[place].store(value, Relaxed);
    }
    Ok(())
}

/// Gives a part of the file memory, if the file system can.
pub(crate) fn reserve(file: &File, place: usize, length: usize) -> io::Result<()> {
    let reserve = || rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, place as u64, length as u64);
    match retry_on_intr(reserve) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

fn map(file: &File, length: usize) -> io::Result<Arc<Mapping>> {
    Mapping::new(file, NonZeroUsize::new(length).ok_or(Errno::INVAL)?)
}

impl Memory {
    /// Maps the memory in a file, after checking that it is one of a job.
    pub(crate) fn open(file: File) -> Result<Memory, JoinError> {
        let system = JoinError::system("map the shared memory of the job");
        let stat =
            rustix::fs::fstat(&file).map_err(|why| JoinError::system("inspect the shared memory")(why.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(JoinError::Foreign { why: "it is not a regular file" });
        }
        let found = stat.st_size.unsigned_abs();
        let mapped = if found < PAGE as u64 { Err(JoinError::TOO_SHORT) } else { map(&file, PAGE).map_err(&system) };
        let header: View<[AtomicU64]> = mapped?.slice(0, slot::WORDS).ok_or(JoinError::TOO_SHORT)?;
        let read = |place: usize| header[place].load(Relaxed);
        if read(header::MAGIC) != MAGIC {
            return Err(JoinError::Foreign { why: "it does not begin like one" });
        }
        if read(header::VERSION) != VERSION {
            return Err(JoinError::Version { found: read(header::VERSION), known: VERSION });
        }
        let (ranks, lines) = (read(header::RANKS), read(header::LINES));
        let is_sensible = (1..=u64::from(MOST_RANKS)).contains(&ranks)
            && (4..=MOST_LINES).contains(&lines)
            && lines.is_power_of_two();
        if !is_sensible {
            return Err(JoinError::Foreign { why: "its header says nonsense" });
        }
        let layout = Layout { ranks: ranks as u32, lines: lines as usize };
        let expected = layout.length() as u64;
        if found != expected || read(header::LENGTH) != expected {
            return Err(JoinError::Length { expected, found });
        }
        let namespace = read(header::NAMESPACE);
        let mapping = map(&file, layout.length()).map_err(system)?;
        let slot = |rank: u32| {
            let place = (rank as usize + 1) * slot::WORDS * WORD;
            Some(Slot {
                process: mapping.get(place + slot::PROCESS * WORD)?,
                words: mapping.slice(place, slot::WORDS)?,
            })
        };
        let slots = (0..layout.ranks).map(slot).collect::<Option<_>>().ok_or(JoinError::TOO_SHORT)?;
        let header = mapping.slice(0, slot::WORDS).ok_or(JoinError::TOO_SHORT)?;
        Ok(Memory { layout, mapping, file, namespace, header, slots })
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.layout.ranks
    }

    /// The state of the waiting rule, for all ranks.
    pub(crate) fn team_state(&self) -> &AtomicU64 {
        &self.header[header::TEAM]
    }

    /// The slot of the process of a rank.
    #[inline]
    pub(crate) fn process(&self, rank: u32) -> &ProcessSlot {
        &self.slots[rank as usize].process
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
        (0..self.ranks()).all(|rank| !self.process(rank).is_free())
    }

    /// Removes the name of the file, if it is still that of this memory, and once.
    pub(crate) fn remove_name(&self, folder: &Folder, name: &OsStr, path: &Path) -> io::Result<()> {
        if self.header[header::REMOVED].swap(1, Relaxed) != 0 {
            return Ok(());
        }
        let named = rustix::fs::lstat(path);
        let own = rustix::fs::fstat(&self.file)?;
        match named {
            Ok(named) if (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino) => folder.remove(name),
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    #[inline]
    pub(crate) fn bell(&self, rank: u32) -> Bell<'_> {
        Bell::new(&self.slots[rank as usize].words[slot::BELL..])
    }

    /// The longest payload of a record.
    pub(crate) fn longest_payload(&self) -> usize {
        ring::longest_payload(self.layout.lines)
    }

    /// The writer's end of a ring, and tells the reader that the ring is used. To be called once.
    pub(crate) fn writer(&self, from: u32, to: u32) -> io::Result<Writer<RingWords>> {
        let writer = Writer::new(self.ring(from, to)?, self.layout.lines);
        self.writers(to).add(from);
        Ok(writer)
    }

    /// The ranks that write to this one.
    #[inline]
    pub(crate) fn writers(&self, to: u32) -> Writers<'_> {
        Writers::new(&self.slots[to as usize].words[slot::WRITERS..])
    }

    /// The reader's end of a ring. To be called once.
    pub(crate) fn reader(&self, from: u32, to: u32) -> io::Result<Reader<RingWords>> {
        Ok(Reader::new(self.ring(from, to)?, self.layout.lines))
    }

    fn ring(&self, from: u32, to: u32) -> io::Result<RingWords> {
        let place = self.layout.place_of_ring(from, to);
        reserve(&self.file, place, self.layout.ring())?;
        self.mapping.slice(place, ring::words(self.layout.lines)).map(RingWords).ok_or_else(|| Errno::INVAL.into())
    }
}
