//! The memory that the ranks of a job share.
//!
//! ```text
//! header | a slot for each rank | for each rank, the set of those that send to it | rings
//! ```
//!
//! There is room for a ring from each rank to each, but the file is sparse: a sender reserves the
//! memory of a ring before it sends the first message, so that a lack of memory is an error there,
//! and not a SIGBUS later. Then it adds itself to the set of its receiver, which reads no other
//! ring.
//!
//! All of it is atomic integers with any values. Sizes are those of this process, checked once.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use rustix::fs::{FallocateFlags, Mode, fallocate};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;
use sys::files::{Draft, Folder, open_existing};
use sys::identity::{Identity, pid_namespace};
use sys::shared_memory::{Mapping, View};
use sys::unnamed::UnnamedFile;

use crate::MOST_RANKS;
use crate::error::JoinError;
use crate::ring::{LINE, Ring};
use crate::word::Word;

/// "messages" as a number. It depends on the byte order.
const MAGIC: u64 = u64::from_ne_bytes(*b"messages");
/// The version of the layout, incremented for each change.
const VERSION: u64 = 1;

/// A line of the cache and its neighbour, in words. What different ranks write is so far apart.
const LINES: usize = 16;
const WORD: usize = size_of::<AtomicU64>();

/// The words of the header.
const HEADER: usize = LINES;
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const RANKS_AT: usize = 2;
const NAMESPACE_AT: usize = 3;
const JOINED_AT: usize = 4;

/// The words of a slot.
const BELL_AT: usize = 0;
const STATE_AT: usize = LINES;
const PID_AT: usize = LINES + 1;
const STARTED_AT: usize = LINES + 2;
const SLOT: usize = 2 * LINES;

/// The states of a rank.
const ABSENT: u64 = 0;
const JOINED: u64 = 1;
const LEFT: u64 = 2;

/// The sizes of the memory for so many ranks, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    ranks: usize,
}

impl Layout {
    fn new(ranks: u32) -> Result<Layout, JoinError> {
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(JoinError::Ranks { ranks });
        }
        Ok(Layout { ranks: ranks as usize })
    }

    /// The words of a ring: 64 KiB, or less for many ranks.
    const fn ring(self) -> usize {
        let many = self.ranks.next_power_of_two();
        if many <= 32 { 8192 } else { 8192 * 32 / many }
    }

    const fn slot(self, rank: usize) -> usize {
        HEADER + rank * SLOT
    }

    /// The words of a set of ranks.
    const fn set(self) -> usize {
        self.ranks.div_ceil(64)
    }

    const fn senders_to(self, rank: usize) -> usize {
        self.slot(self.ranks) + rank * self.set().next_multiple_of(LINES)
    }

    /// The head of a ring, before its words.
    const fn ring_between(self, from: usize, to: usize) -> usize {
        self.senders_to(self.ranks) + (from * self.ranks + to) * (LINES + self.ring())
    }

    /// The length of the part before the rings, in bytes.
    const fn control(self) -> usize {
        self.senders_to(self.ranks) * WORD
    }

    const fn length(self) -> usize {
        self.ring_between(self.ranks, 0) * WORD
    }
}

/// The words of a ring, which they keep alive.
#[derive(Debug)]
pub(crate) struct RingMemory {
    head: View<AtomicU64>,
    lines: View<[[AtomicU64; LINE]]>,
}

impl RingMemory {
    #[inline]
    pub(crate) fn ring(&self) -> Ring<'_, AtomicU64> {
        Ring { head: &self.head, lines: &self.lines }
    }
}

/// The memory of a job, open in this process.
#[derive(Debug)]
pub(crate) struct Memory {
    mapping: Arc<Mapping>,
    file: File,
    layout: Layout,
    header: View<[AtomicU64]>,
    /// The words of all slots.
    slots: View<[AtomicU64]>,
    /// Whether processes are known by their ids here.
    sees_processes: bool,
}

/// Creates the memory for a job whose ranks inherit the environment of this process. It exists as
/// long as this value, or a rank that has joined.
///
/// # Errors
/// If there can be no job of so many ranks, or there is no memory.
pub fn create(ranks: u32) -> Result<UnnamedFile, JoinError> {
    let layout = Layout::new(ranks)?;
    let file = UnnamedFile::of_length(layout.length() as u64).map_err(system("create the memory of ranks"))?;
    Memory::begin(file.file(), layout)?;
    Ok(file)
}

impl Memory {
    /// Opens the memory in a file that [`create`] has created.
    pub(crate) fn open(path: &Path, ranks: u32) -> Result<Memory, JoinError> {
        Memory::from_file(open_existing(path).map_err(system("open the memory of ranks"))?, ranks)
    }

    /// Opens the memory with this name, or creates it.
    pub(crate) fn open_named(name: &str, ranks: u32) -> Result<Memory, JoinError> {
        let layout = Layout::new(ranks)?;
        let (folder, name) = (Folder::open(Path::new("/dev/shm")).map_err(system("open /dev/shm"))?, file_name(name)?);
        loop {
            let draft =
                Draft::create(&folder, Mode::RUSR | Mode::WUSR).map_err(system("create the memory of ranks"))?;
            draft.file().set_len(layout.length() as u64).map_err(system("create the memory of ranks"))?;
            Memory::begin(draft.file(), layout)?;
            match draft.give_new_name(name.as_ref()) {
                Err(why) if why.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(system("name the memory of ranks")(why));
                }
                _ => {}
            }
            let file = match open_existing(&Path::new("/dev/shm").join(&name)) {
                // The last rank has removed it meanwhile: it was another job.
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(system("open the memory of ranks"))?,
            };
            if file.metadata().map_err(system("inspect the memory of ranks"))?.uid() != geteuid().as_raw() {
                return Err(JoinError::Foreign("the memory of ranks belongs to another user"));
            }
            let memory = Memory::from_file(file, ranks)?;
            if memory.lost().is_none() {
                return Ok(memory);
            }
            // It is what a killed job has left.
            folder.remove(name.as_str()).map_err(system("remove the memory of a killed job"))?;
        }
    }

    /// Initializes the memory, which is zero.
    fn begin(file: &File, layout: Layout) -> Result<(), JoinError> {
        reserve(file, 0, layout.control()).map_err(system("reserve the memory of ranks"))?;
        let mapping = map(file, HEADER * WORD)?;
        let header: View<[AtomicU64]> = mapping.slice(0, HEADER).ok_or(TOO_SHORT)?;
        for (at, value) in [(VERSION_AT, VERSION), (RANKS_AT, layout.ranks as u64), (NAMESPACE_AT, pid_namespace())] {
            header[at].store(value, Relaxed);
        }
        header[MAGIC_AT].store(MAGIC, Release);
        Ok(())
    }

    fn from_file(file: File, ranks: u32) -> Result<Memory, JoinError> {
        let layout = Layout::new(ranks)?;
        let length = file.metadata().map_err(system("inspect the memory of ranks"))?.len();
        if length < (HEADER * WORD) as u64 {
            return Err(TOO_SHORT);
        }
        let header: View<[AtomicU64]> = map(&file, HEADER * WORD)?.slice(0, HEADER).ok_or(TOO_SHORT)?;
        if header[MAGIC_AT].load(Acquire) != MAGIC {
            return Err(JoinError::Foreign("the file is no memory of ranks"));
        }
        if header[VERSION_AT].load(Relaxed) != VERSION {
            return Err(JoinError::Foreign("the memory of ranks is of another version"));
        }
        let found = header[RANKS_AT].load(Relaxed) as u32;
        if found != ranks {
            return Err(JoinError::OtherRanks { found, expected: ranks });
        }
        if length != layout.length() as u64 {
            return Err(TOO_SHORT);
        }
        let mapping = map(&file, layout.length())?;
        let header: View<[AtomicU64]> = mapping.slice(0, HEADER).ok_or(TOO_SHORT)?;
        let slots = mapping.slice(HEADER * WORD, layout.ranks * SLOT).ok_or(TOO_SHORT)?;
        let own = pid_namespace();
        let sees_processes = own != 0 && header[NAMESPACE_AT].load(Relaxed) == own;
        Ok(Memory { mapping, file, layout, header, slots, sees_processes })
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.layout.ranks as u32
    }

    /// Claims a rank for this process. Returns whether all ranks have joined now.
    pub(crate) fn claim(&self, rank: u32) -> Result<bool, JoinError> {
        let Some([state, pid, started]) = self.words_of(rank) else {
            return Err(JoinError::NoSuchRank { rank, ranks: self.ranks() });
        };
        state.compare_exchange(ABSENT, JOINED, SeqCst, SeqCst).map_err(|_| JoinError::Taken { rank })?;
        let own = Identity::own();
        // A rank that is killed here is taken for one that is alive until all others have failed.
        started.store(own.started, Relaxed);
        pid.store(own.pid.into(), Release);
        Ok(self.header[JOINED_AT].fetch_add(1, SeqCst) + 1 == self.layout.ranks as u64)
    }

    /// Notes that this process's rank has left. It wakes those that wait for it.
    pub(crate) fn leave(&self, rank: u32) {
        if let Some([state, ..]) = self.words_of(rank) {
            state.store(LEFT, SeqCst);
        }
    }

    /// Whether a rank has left.
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        self.words_of(rank).is_some_and(|[state, ..]| state.load(SeqCst) == LEFT)
    }

    /// A rank whose process has ended without leaving.
    pub(crate) fn lost(&self) -> Option<u32> {
        (0..self.ranks()).find(|&rank| self.is_lost(rank))
    }

    fn is_lost(&self, rank: u32) -> bool {
        self.words_of(rank).is_some_and(|[state, pid, started]| {
            let pid = pid.load(Acquire) as u32;
            let is_known = self.sees_processes && state.load(SeqCst) == JOINED && pid != 0;
            is_known && !Identity { pid, started: started.load(Relaxed) }.is_alive()
        })
    }

    fn words_of(&self, rank: u32) -> Option<[&AtomicU64; 3]> {
        let slot = rank as usize * SLOT;
        self.slots.get(slot..slot + SLOT).map(|slot| [&slot[STATE_AT], &slot[PID_AT], &slot[STARTED_AT]])
    }

    /// The bell of a rank.
    ///
    /// # Panics
    /// If there is no such rank.
    pub(crate) fn bell(&self, rank: u32) -> &AtomicU64 {
        &self.slots[rank as usize * SLOT + BELL_AT]
    }

    /// The set of ranks that send to this one.
    pub(crate) fn senders(&self, rank: u32) -> Option<View<[AtomicU64]>> {
        self.mapping.slice(self.layout.senders_to(rank as usize) * WORD, self.layout.set())
    }

    /// The ring between two ranks. Its memory may not be reserved yet.
    pub(crate) fn ring(&self, from: u32, to: u32) -> Option<RingMemory> {
        let head = self.layout.ring_between(from as usize, to as usize);
        let lines = self.mapping.slice((head + LINES) * WORD, self.layout.ring() / LINE)?;
        Some(RingMemory { head: self.mapping.get(head * WORD)?, lines })
    }

    /// Reserves the memory of a ring, which the calling rank is going to write.
    pub(crate) fn reserve(&self, from: u32, to: u32) -> io::Result<()> {
        let begin = self.layout.ring_between(from as usize, to as usize);
        reserve(&self.file, begin * WORD, (LINES + self.layout.ring()) * WORD)
    }

    /// Adds a sender to the set of its receiver, which reads its ring from then on.
    pub(crate) fn announce(&self, from: u32, to: u32) {
        if let Some(senders) = self.senders(to) {
            senders[from as usize / 64].mark(1 << (from % 64));
        }
    }
}

/// Removes the name of the memory of ranks that have all joined, as long as it is theirs.
pub(crate) fn remove_name(name: &str) {
    if let (Ok(folder), Ok(name)) = (Folder::open(Path::new("/dev/shm")), file_name(name)) {
        // Another rank may have been faster.
        let _ = folder.remove(name.as_str());
    }
}

fn file_name(name: &str) -> Result<String, JoinError> {
    let is_valid = (1..=100).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    let user = geteuid().as_raw();
    is_valid
        .then(|| format!("rowlock-messages-{user}-{name}"))
        .ok_or(JoinError::Foreign("a name of ranks has 1 to 100 printable characters other than `/` and space"))
}

const TOO_SHORT: JoinError = JoinError::Foreign("the memory of ranks has another length");

fn map(file: &File, length: usize) -> Result<Arc<Mapping>, JoinError> {
    let length = NonZeroUsize::new(length).ok_or(TOO_SHORT)?;
    Mapping::new(file, length).map_err(system("map the memory of ranks"))
}

fn reserve(file: &File, offset: usize, length: usize) -> io::Result<()> {
    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), offset as u64, length as u64)) {
        // The file system does not support this.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        reserved => Ok(reserved?),
    }
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> JoinError {
    move |why| JoinError::System { doing, why }
}
