//! The memory of a shared object: a file with a header that describes it.
//!
//! Its content is never trusted. This process uses its own copies of the sizes, which it has
//! checked once against those of the file. The rest is atomic integers with any values.

use std::ffi::OsStr;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{FallocateFlags, FileType, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::{Errno, retry_on_intr};
use sys::files::{self, Draft, Folder};
use sys::shared_memory::{Mapping, Plain, View};

use super::mutex::MutexBody;
use crate::protocol::padded::Padded;
use crate::protocol::process_slot::ProcessSlot;
use crate::protocol::raw_event::RawEvent;
use crate::protocol::raw_semaphore::RawSemaphore;
use crate::protocol::shared_state::{BarrierWords, PartySlot};

/// The maximum number of parties or processes of a shared object.
pub const MOST_MEMBERS: u32 = 1 << 16;

/// "rowlock" and a byte that no text contains, as a number. It depends on the byte order.
const MAGIC: u64 = u64::from_ne_bytes(*b"rowlock\x81");
/// The version of the layout, incremented for each change.
const VERSION: u32 = 5;

/// The kind of a shared object.
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

/// The reason why a shared object cannot be created, opened or removed.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// A system call failed, for example because the file exists already, or does not exist.
    #[error("cannot {doing}: {why}")]
    System {
        /// The attempted action and the file.
        doing: String,
        /// The error of the system call.
        #[source]
        why: io::Error,
    },
    /// The number of processes or parties is out of range.
    #[error("a shared object is for 1 to {MOST_MEMBERS} processes or parties, not for {0}")]
    Members(u32),
    /// No slot is free for another process: those that have the object open are alive or cannot be
    /// checked, or one has died while it held the mutex.
    #[error(
        "all {0} process slots of this shared object are in use: close it in a process that has it open, lock it if it is \
         a mutex whose owner has died, or remove it and create one with more slots"
    )]
    Full(usize),
    /// The file was not created by this library: it is short, not regular, or begins otherwise.
    #[error("this is not a shared object of rowlock: {0}")]
    Foreign(&'static str),
    /// The file was created by another version of this library.
    #[error(
        "this shared object has version {found} of the layout, and this program knows {VERSION}: rebuild one of them"
    )]
    Version {
        /// The version of the file.
        found: u32,
    },
    /// It contains another kind of object.
    #[error("this shared object is of kind {found}, not of kind {} ({expected})", *expected as u32)]
    Kind {
        /// The expected kind.
        expected: ObjectKind,
        /// The number of the actual kind.
        found: u32,
    },
    /// The file's length contradicts its header.
    #[error("this shared object should have {expected} bytes and has {found}: it has been cut off or overwritten")]
    Length {
        /// The length in the header.
        expected: u64,
        /// The file's length.
        found: u64,
    },
}

/// The header. It is written before another process can open the file, and never changed.
#[derive(Debug)]
#[repr(C, align(128))]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    kind: AtomicU32,
    members: AtomicU32,
    /// A property that depends on the kind of object.
    detail: AtomicU32,
    length: AtomicU64,
    /// The PID namespace in which the processes identify each other.
    namespace: AtomicU64,
}

// SAFETY: atomic integers and padding, laid out by `repr(C)`.
unsafe impl Plain for Header {}
// SAFETY: `Padded` of atomic integers, and of `GenerationWord` and so `Futex`, which are atomic
// integers by `repr(transparent)`; `repr(C)`.
unsafe impl Plain for BarrierWords {}
// SAFETY: `Padded` of a `PartySlot`. That contains `ProcessSlot` and `LastArrival`, atomic integers
// by `repr(transparent)`, and `Counters`, atomic integers. All are `repr(C)`.
unsafe impl Plain for Padded<PartySlot> {}
// SAFETY: an atomic integer by `repr(transparent)`.
unsafe impl Plain for ProcessSlot {}
// SAFETY: `RobustLock`, an atomic integer by `repr(transparent)`, and `WaitState`; `repr(C)`.
unsafe impl Plain for MutexBody {}
// SAFETY: `CountedFutex`, an atomic integer by `repr(transparent)`, and `WaitState`; `repr(C)`.
unsafe impl Plain for RawSemaphore {}
// SAFETY: as `RawSemaphore`.
unsafe impl Plain for RawEvent {}

/// The size of an object of a kind without the header, by its number of parties or processes.
pub(super) type BodySize = fn(members: u32) -> usize;

/// The memory of an object.
#[derive(Debug)]
pub(super) struct Memory {
    mapping: Arc<Mapping>,
    pub(super) file: OwnedFd,
    /// The maximum number of parties or processes.
    pub(super) members: u32,
    /// A property that depends on the kind of object. May be anything.
    pub(super) detail: u32,
    /// The PID namespace in which the processes identify each other.
    pub(super) namespace: u64,
}

/// The description of a new memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    pub(super) kind: ObjectKind,
    pub(super) members: u32,
    /// A property that depends on the kind of object.
    pub(super) detail: u32,
    /// Its size without the header.
    pub(super) body: BodySize,
}

impl Memory {
    /// Creates memory under a new path, where it is complete as soon as it can be found. Without a
    /// path it is for children that inherit its file, and its length is sealed. `begin` initializes
    /// it, which is zero except for its header, before other processes find it.
    pub(super) fn create(
        path: Option<&Path>,
        purpose: Purpose,
        begin: impl FnOnce(&Memory) -> Result<(), MemoryError>,
    ) -> Result<Memory, MemoryError> {
        let doing = || match path {
            Some(path) => format!("create shared memory {}", path.display()),
            None => "create nameless shared memory".to_owned(),
        };
        let Some(path) = path else {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create("rowlock", flags).map_err(system(doing))?;
            let memory = Memory::begin(file, purpose)?;
            begin(&memory)?;
            let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            rustix::fs::fcntl_add_seals(&memory.file, seals).map_err(system(doing))?;
            return Ok(memory);
        };
        let (folder, name) = place(path).map_err(system(doing))?;
        let draft = Draft::create(&folder, Mode::RUSR | Mode::WUSR).map_err(system(doing))?;
        let file = draft.file().try_clone().map_err(system(doing))?;
        let memory = Memory::begin(file.into(), purpose)?;
        begin(&memory)?;
        draft.give_new_name(name).map_err(system(doing))?;
        Ok(memory)
    }

    /// Gives an empty file its length and its header.
    fn begin(file: OwnedFd, Purpose { kind, members, detail, body }: Purpose) -> Result<Memory, MemoryError> {
        if !(1..=MOST_MEMBERS).contains(&members) {
            return Err(MemoryError::Members(members));
        }
        let length = size_of::<Header>() + body(members);
        allocate(&file, length as u64).map_err(system(|| format!("allocate {length} bytes of shared memory")))?;
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

    /// Opens the memory at a path.
    pub(super) fn open(path: &Path, kind: ObjectKind, body: BodySize) -> Result<Memory, MemoryError> {
        Memory::from_fd(open(path).map_err(system(|| format!("open shared memory {}", path.display())))?, kind, body)
    }

    /// Opens the memory in an open file.
    pub(super) fn from_fd(file: OwnedFd, kind: ObjectKind, body: BodySize) -> Result<Memory, MemoryError> {
        let found = length(&file)?;
        let header = header(&file)?;
        let [version, found_kind, members] = [&header.version, &header.kind, &header.members].map(|n| n.load(Relaxed));
        if version != VERSION {
            return Err(MemoryError::Version { found: version });
        }
        if found_kind != kind as u32 {
            return Err(MemoryError::Kind { expected: kind, found: found_kind });
        }
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

    /// The value at this offset behind the header.
    pub(super) fn get<T: Plain>(&self, offset: usize) -> Result<View<T>, MemoryError> {
        self.mapping.get(size_of::<Header>() + offset).ok_or(TOO_SHORT)
    }

    /// The values at this offset behind the header.
    pub(super) fn slice<T: Plain>(&self, offset: usize, count: usize) -> Result<View<[T]>, MemoryError> {
        self.mapping.slice(size_of::<Header>() + offset, count).ok_or(TOO_SHORT)
    }
}

const TOO_SHORT: MemoryError = MemoryError::Foreign("it is too short");

/// Removes the name of a shared object. Processes that have it open can continue to use it.
///
/// # Errors
/// [`MemoryError`] if there is no shared object. A file of another kind is not removed.
pub fn unlink(path: impl AsRef<Path>) -> Result<(), MemoryError> {
    let path = path.as_ref();
    let doing = || format!("remove shared memory {}", path.display());
    let file = open(path).map_err(system(doing))?;
    length(&file)?;
    header(&file)?;
    place(path).and_then(|(folder, name)| folder.remove(name)).map_err(system(doing))
}

/// The folder of a path, and the name in it.
fn place(path: &Path) -> io::Result<(Folder, &OsStr)> {
    let name = path.file_name().ok_or_else(files::folder_error)?;
    Ok((Folder::open(path.parent().unwrap_or(Path::new("")))?, name))
}

/// Opens an existing file, without blocking if it is a special one.
#[expect(clippy::disallowed_methods, reason = "it creates no file")]
fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())
}

/// The length of a file that contains at least a header.
fn length(file: &OwnedFd) -> Result<u64, MemoryError> {
    let stat = rustix::fs::fstat(file).map_err(system(|| "inspect shared memory".to_owned()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(MemoryError::Foreign("it is not a regular file"));
    }
    let length = stat.st_size.unsigned_abs();
    if length < size_of::<Header>() as u64 { Err(TOO_SHORT) } else { Ok(length) }
}

/// The header of a file that is long enough for one, if it is one of ours.
fn header(file: &OwnedFd) -> Result<View<Header>, MemoryError> {
    let header: View<Header> = map(file, size_of::<Header>())?.get(0).ok_or(TOO_SHORT)?;
    if header.magic.load(Relaxed) == MAGIC {
        Ok(header)
    } else {
        Err(MemoryError::Foreign("it does not begin like one"))
    }
}

/// Gives an empty file its length and allocates its memory. So a lack of memory is an error here,
/// and not a SIGBUS at the first access to a page.
fn allocate(file: &OwnedFd, length: u64) -> rustix::io::Result<()> {
    match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, length)) {
        // The file system does not support this.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => rustix::fs::ftruncate(file, length),
        result => result,
    }
}

fn map(file: &OwnedFd, length: usize) -> Result<Arc<Mapping>, MemoryError> {
    let length = NonZeroUsize::new(length).ok_or(TOO_SHORT)?;
    Mapping::new(file, length).map_err(|why| MemoryError::System { doing: "map shared memory".to_owned(), why })
}

fn system<E: Into<io::Error>>(doing: impl FnOnce() -> String) -> impl FnOnce(E) -> MemoryError {
    |why| MemoryError::System { doing: doing(), why: why.into() }
}
