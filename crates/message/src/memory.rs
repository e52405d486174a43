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

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, retry_on_intr};
use sys::shared_memory::{Mapping, View};
use sys::unnamed::UnnamedFile;

use crate::bell::Bell;
use crate::error::JoinError;
use crate::ring::{self, Reader, Writer};
pub use crate::roster::MOST_RANKS;
use crate::roster::{self, MAGIC, PAGE, Roster, WORD, header, map, slot};
use crate::writers::Writers;

/// The version of the layout, incremented for each change.
const VERSION: u64 = 1;
/// The lines of a ring. A pair of ranks that talks takes 64 KiB in each direction.
const LINES: u64 = 1024;
/// The most lines of a ring that another program may have chosen.
const MOST_LINES: u64 = 1 << 16;

/// The sizes of a job's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    ranks: u32,
    lines: usize,
}

impl Layout {
    /// The length of header and slots in bytes.
    fn slots(self) -> usize {
        roster::length(self.ranks)
    }

    /// The length of a ring in bytes. Rings begin at pages, so that each has memory of its own.
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
    pub(crate) roster: Roster,
    layout: Layout,
    mapping: Arc<Mapping>,
    /// By rank.
    slots: Vec<View<[AtomicU64]>>,
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

impl Memory {
    /// Maps the memory in a file, after checking that it is one of a job.
    pub(crate) fn open(file: File) -> Result<Memory, JoinError> {
        Memory::of(Roster::open(file)?)
    }

    /// Maps the memory that begins with this roster.
    pub(crate) fn of(roster: Roster) -> Result<Memory, JoinError> {
        let read = |place: usize| roster.header[place].load(Relaxed);
        if read(header::VERSION) != VERSION {
            return Err(JoinError::Version { found: read(header::VERSION), known: VERSION });
        }
        let lines = read(header::LINES);
        if !(4..=MOST_LINES).contains(&lines) || !lines.is_power_of_two() {
            return Err(JoinError::NONSENSE);
        }
        let layout = Layout { ranks: roster.ranks(), lines: lines as usize };
        let system = JoinError::system("map the shared memory of the job");
        let (expected, found) = (layout.length() as u64, roster.file.metadata().map_err(&system)?.len());
        if found != expected || read(header::LENGTH) != expected {
            return Err(JoinError::Length { expected, found });
        }
        let mapping = map(&roster.file, layout.length()).map_err(system)?;
        let slot = |rank| mapping.slice(roster::place_of_slot(rank), slot::WORDS);
        let slots = (0..layout.ranks).map(slot).collect::<Option<_>>().ok_or(JoinError::TOO_SHORT)?;
        Ok(Memory { roster, layout, mapping, slots })
    }

    /// The state of the waiting rule, for all ranks.
    pub(crate) fn team_state(&self) -> &AtomicU64 {
        &self.roster.header[header::TEAM]
    }

    #[inline]
    pub(crate) fn bell(&self, rank: u32) -> Bell<'_> {
        Bell::new(&self.slots[rank as usize][slot::BELL..])
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
        Writers::new(&self.slots[to as usize][slot::WRITERS..])
    }

    /// The reader's end of a ring. To be called once.
    pub(crate) fn reader(&self, from: u32, to: u32) -> io::Result<Reader<RingWords>> {
        Ok(Reader::new(self.ring(from, to)?, self.layout.lines))
    }

    fn ring(&self, from: u32, to: u32) -> io::Result<RingWords> {
        let place = self.layout.place_of_ring(from, to);
        reserve(&self.roster.file, place, self.layout.ring())?;
        self.mapping.slice(place, ring::words(self.layout.lines)).map(RingWords).ok_or_else(|| Errno::INVAL.into())
    }
}
