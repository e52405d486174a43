//! The memory of a shared object: a file with a header that says what is in it.
//!
//! What it holds is never trusted. The sizes that this process goes by are its own copies, checked once against the
//! file's; everything else in it is atomic integers, any of which may be anything.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::{Errno, retry_on_intr};
use sys::shared_memory::{Mapping, Plain, View};

use super::mutex::MutexBody;
use crate::protocol::process_slot::ProcessSlot;
use crate::protocol::raw_event::RawEvent;
use crate::protocol::raw_semaphore::RawSemaphore;
use crate::protocol::shared_state::{BarrierWords, Padded, PartySlot};

/// How many members, or processes, a shared object may have at the most.
pub const MOST_MEMBERS: u32 = 1 << 16;

/// "rowlock" and a byte that no text has, read as a number: it is another one where bytes are in another order.
const MAGIC: u64 = u64::from_ne_bytes(*b"rowlock\x81");
/// Of everything that is in the memory; a new one for each change of it.
const VERSION: u32 = 3;

/// What kind of object a memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ObjectKind {
    /// A [`Barrier`](super::Barrier).
    Barrier = 1,
    /// A [`Mutex`](super::Mutex).
    Mutex = 2,
    /// A [`Semaphore`](super::Semaphore).
    Semaphore = 3,
    /// An [`Event`](super::Event).
    Event = 4,
}

impl std::fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ObjectKind::Barrier => "barrier",
            ObjectKind::Mutex => "mutex",
            ObjectKind::Semaphore => "semaphore",
            ObjectKind::Event => "event",
        })
    }
}

/// Why a shared object cannot be made, opened or removed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The system refuses; as where a file exists that is to be created, or does not that is to be opened.
    #[error("cannot {doing}: {why}")]
    System {
        /// What was tried, and with which file.
        doing: String,
        /// The system's reason.
        #[source]
        why: io::Error,
    },
    /// A number of processes or members that no shared object has.
    #[error("a shared object is for 1 to {MOST_MEMBERS} processes, or members of a barrier, and not for {0}")]
    Members(u32),
    /// It has no place for one more process: those that have it open live, or cannot be seen to have ended, or one has died with the
    /// mutex.
    #[error(
        "no place is free in this shared object, of {0} in all: close it in one of the processes that have it open, lock it if it is \
         a mutex whose owner has died, or remove it and make one with more places"
    )]
    Full(usize),
    /// It is not a file that was made by this library: it does not begin as one, or is too short or no regular file.
    #[error("this is no shared object of rowlock: {0}")]
    Foreign(&'static str),
    /// It was made by another version of this library.
    #[error(
        "this shared object has version {found} of the layout, and this program knows {VERSION}: rebuild one of them"
    )]
    Version {
        /// The version that it has.
        found: u32,
    },
    /// It holds another kind of object.
    #[error("this shared object is no {expected} (kind {}) but of kind {found}", *expected as u32)]
    Kind {
        /// What was to be opened.
        expected: ObjectKind,
        /// The kind's number that was found.
        found: u32,
    },
    /// The file's length is not what its header says.
    #[error("this shared object should have {expected} bytes and has {found}: it has been cut off or overwritten")]
    Length {
        /// The length by the header.
        expected: u64,
        /// The file's length.
        found: u64,
    },
}

/// The beginning of the memory. It is written before anybody else can open the file, and never changed.
#[derive(Debug)]
#[repr(C, align(128))]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    kind: AtomicU32,
    members: AtomicU32,
    /// What else there is to know about an object of its kind.
    detail: AtomicU32,
    length: AtomicU64,
    /// Where its members know each other by number.
    namespace: AtomicU64,
}

// SAFETY: atomic integers and padding, laid out by `repr(C)`.
unsafe impl Plain for Header {}
// SAFETY: `Padded` of atomic integers, of `Word` and so `Futex`, which are atomic integers by `repr(transparent)`; `repr(C)`.
unsafe impl Plain for BarrierWords {}
// SAFETY: `Padded` of a `PartySlot`, which has `ProcessSlot` and `LastArrival`, atomic integers by `repr(transparent)`, and `Counters`,
// atomic integers; all are `repr(C)`.
unsafe impl Plain for Padded<PartySlot> {}
// SAFETY: an atomic integer by `repr(transparent)`.
unsafe impl Plain for ProcessSlot {}
// SAFETY: `RobustLock`, an atomic integer by `repr(transparent)`, and `WaitState`, atomic integers; all `repr(C)`.
unsafe impl Plain for MutexBody {}
// SAFETY: `CountedFutex`, an atomic integer by `repr(transparent)`, and `WaitState`, atomic integers; all `repr(C)`.
unsafe impl Plain for RawSemaphore {}
// SAFETY: as `RawSemaphore`.
unsafe impl Plain for RawEvent {}

/// How much memory an object of a kind needs beside the header, by its members.
pub(super) type Body = fn(members: u32) -> usize;

/// An object's memory.
#[derive(Debug)]
pub(super) struct Memory {
    mapping: Arc<Mapping>,
    file: OwnedFd,
    members: u32,
    detail: u32,
    namespace: u64,
}

/// What a new memory is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    pub(super) kind: ObjectKind,
    pub(super) members: u32,
    /// What else there is to know about an object of the kind.
    pub(super) detail: u32,
    /// How much memory it needs.
    pub(super) body: Body,
}

/// What has to be written to a new memory, all zeros but for its header, before others find it.
pub(super) type Begin<'a> = &'a dyn Fn(&Memory) -> Result<(), MemoryError>;

impl Memory {
    /// New memory under a path where nothing is yet: complete from the moment on that it can be found there.
    pub(super) fn create(path: &Path, purpose: Purpose, begin: Begin<'_>) -> Result<Memory, MemoryError> {
        let doing = |what: &str| format!("{what} shared memory {}", path.display());
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).map_err(system(|| doing("create")))?;
        let memory = Memory::begin(file, purpose)?;
        begin(&memory)?;
        // The file has no name yet, but one by which this process knows it.
        let nameless = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory.file));
        rustix::fs::linkat(CWD, nameless, CWD, path, AtFlags::SYMLINK_FOLLOW).map_err(system(|| doing("create")))?;
        Ok(memory)
    }

    /// New memory without a name, whose length is sealed: for children, who inherit its file.
    pub(super) fn create_nameless(purpose: Purpose, begin: Begin<'_>) -> Result<Memory, MemoryError> {
        let doing = || "create nameless shared memory".to_owned();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("rowlock", flags).map_err(system(doing))?;
        let memory = Memory::begin(file, purpose)?;
        begin(&memory)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory.file, seals).map_err(system(doing))?;
        Ok(memory)
    }

    /// Gives an empty file its length and its header.
    fn begin(file: OwnedFd, Purpose { kind, members, detail, body }: Purpose) -> Result<Memory, MemoryError> {
        if !(1..=MOST_MEMBERS).contains(&members) {
            return Err(MemoryError::Members(members));
        }
        let length = size_of::<Header>() + body(members);
        allocate(&file, length as u64).map_err(system(|| format!("get {length} bytes of shared memory")))?;
        let namespace = sys::identity::pid_namespace();
        let memory = Memory { mapping: map(&file, length)?, file, members, detail, namespace };
        let header: View<Header> = memory.mapping.get(0).ok_or(TOO_SHORT)?;
        header.version.store(VERSION, Relaxed);
        header.kind.store(kind as u32, Relaxed);
        header.members.store(members, Relaxed);
        header.detail.store(detail, Relaxed);
        header.length.store(length as u64, Relaxed);
        header.namespace.store(namespace, Relaxed);
        header.magic.store(MAGIC, Relaxed);
        Ok(memory)
    }

    /// The memory under a path.
    pub(super) fn open(path: &Path, kind: ObjectKind, body: Body) -> Result<Memory, MemoryError> {
        // Not to be held up by what only looks like a file.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(system(|| format!("open shared memory {}", path.display())))?;
        Memory::from_fd(file, kind, body)
    }

    /// The memory in an open file.
    pub(super) fn from_fd(file: OwnedFd, kind: ObjectKind, body: Body) -> Result<Memory, MemoryError> {
        let found = length(&file)?;
        let header = header(&file)?;
        match header.version.load(Relaxed) {
            VERSION => {}
            found => return Err(MemoryError::Version { found }),
        }
        match header.kind.load(Relaxed) {
            found if found == kind as u32 => {}
            found => return Err(MemoryError::Kind { expected: kind, found }),
        }
        let members = header.members.load(Relaxed);
        if !(1..=MOST_MEMBERS).contains(&members) {
            return Err(MemoryError::Members(members));
        }
        let expected = size_of::<Header>() + body(members);
        if found != expected as u64 || header.length.load(Relaxed) != found {
            return Err(MemoryError::Length { expected: expected as u64, found });
        }
        let (detail, namespace) = (header.detail.load(Relaxed), header.namespace.load(Relaxed));
        Ok(Memory { mapping: map(&file, expected)?, file, members, detail, namespace })
    }

    /// How many members the object has room for.
    pub(super) fn members(&self) -> u32 {
        self.members
    }

    /// What else there is to know about an object of its kind; whatever it may be.
    pub(super) fn detail(&self) -> u32 {
        self.detail
    }

    /// The PID namespace in which its members know each other.
    pub(super) fn namespace(&self) -> u64 {
        self.namespace
    }

    /// The value so many bytes behind the header.
    pub(super) fn get<T: Plain>(&self, offset: usize) -> Result<View<T>, MemoryError> {
        self.mapping.get(size_of::<Header>() + offset).ok_or(TOO_SHORT)
    }

    /// So many values, from so many bytes behind the header on.
    pub(super) fn slice<T: Plain>(&self, offset: usize, count: usize) -> Result<View<[T]>, MemoryError> {
        self.mapping.slice(size_of::<Header>() + offset, count).ok_or(TOO_SHORT)
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

const TOO_SHORT: MemoryError = MemoryError::Foreign("it is too short");

/// Removes a shared object's name. Who has it open goes on with it; nobody else can open it any more.
///
/// # Errors
/// [`MemoryError`], where there is no such file, or it does not begin as a shared object of rowlock does: then it stays.
pub fn unlink(path: impl AsRef<Path>) -> Result<(), MemoryError> {
    let path = path.as_ref();
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let doing = || format!("remove shared memory {}", path.display());
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(system(doing))?;
    length(&file)?;
    header(&file)?;
    rustix::fs::unlink(path).map_err(system(doing))
}

/// The length of a file that has at least a header.
fn length(file: &OwnedFd) -> Result<u64, MemoryError> {
    let stat = rustix::fs::fstat(file).map_err(system(|| "look at shared memory".to_owned()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(MemoryError::Foreign("it is no regular file"));
    }
    let length = stat.st_size.unsigned_abs();
    if length < size_of::<Header>() as u64 { Err(TOO_SHORT) } else { Ok(length) }
}

/// The header of a file that is long enough for one, if it is ours.
fn header(file: &OwnedFd) -> Result<View<Header>, MemoryError> {
    let header: View<Header> = map(file, size_of::<Header>())?.get(0).ok_or(TOO_SHORT)?;
    if header.magic.load(Relaxed) == MAGIC { Ok(header) } else { Err(MemoryError::Foreign("it does not begin as one")) }
}

/// Gives an empty file its length, and all the memory for it: where there is none left, that is said here, and not by a SIGBUS
/// to whom first touches a page.
fn allocate(file: &OwnedFd, length: u64) -> rustix::io::Result<()> {
    match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, length)) {
        // A file system that cannot say so beforehand.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(file, length),
        result => result,
    }
}

fn map(file: &OwnedFd, length: usize) -> Result<Arc<Mapping>, MemoryError> {
    let length = NonZeroUsize::new(length).ok_or(TOO_SHORT)?;
    Mapping::new(file, length).map_err(|why| MemoryError::System { doing: "map shared memory".to_owned(), why })
}

fn system(doing: impl FnOnce() -> String) -> impl FnOnce(rustix::io::Errno) -> MemoryError {
    |why| MemoryError::System { doing: doing(), why: why.into() }
}
