//! Objects that several processes share, in memory that each of them has mapped.
//!
//! The memory is a file, by a path or without a name. It begins with a header by which each process sees that it is what it
//! takes it for, and is otherwise nothing but atomic integers: whatever anybody writes to it can make the members wait
//! in vain or too short, but does nothing else to their processes. A file that is *shortened* while it is in use kills its
//! users by SIGBUS; the length of a nameless one cannot be changed.
//!
//! The guide is `docs/shared.md`.
//!
//! # Who is gone
//!
//! Each process is on record with its number and its start. Whoever waits looks every 100 ms, and
//! at its deadline, whether those live that it waits for, and gives up with an error that names who does not. So nobody
//! waits for ever for a process that has been killed, at whatever moment.
//!
//! * Members that have *not joined yet* are awaited: a team takes its time to come together.
//! * A *thread* that ends without dropping its member (it was forgotten, or is stuck) is not seen to be gone while its process lives.
//! * Processes see each other end *within one PID namespace*, that of the process that made the object. A member from another
//!   one, as in another container, can wait and be waited for, but it takes a deadline to find out that it is gone. So it is where
//!   `/proc` is not mounted, or is hidden and the number of a process that has ended is used again.
//! * A process that *executes another program* is the same process, and lives.

mod barrier;
mod event;
#[allow(unsafe_code)] // What other processes write to is seen as this crate's types.
mod memory;
mod mutex;
mod object;
mod participants;
mod semaphore;

pub use barrier::{Barrier, Full, LostParty, Party, WaitError};
pub use event::Event;
pub use memory::{MOST_MEMBERS, MemoryError, ObjectKind, unlink};
pub use mutex::{Guard, LockError, Mutex, OwnerDied};
pub use semaphore::Semaphore;

/// What was awaited at a semaphore or an event has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitFailure {
    /// The deadline has passed.
    #[error("the deadline has passed, and what was awaited has not come")]
    TimedOut,
    /// A process has died that had the object open, and may be the one that was awaited.
    #[error("process {pid} has died with the object open, and may be the one that was awaited")]
    Abandoned {
        /// The process; one of them, if there are several.
        pid: u32,
    },
}

impl WaitFailure {
    fn by(lost: Option<u32>) -> WaitFailure {
        lost.map_or(WaitFailure::TimedOut, |pid| WaitFailure::Abandoned { pid })
    }
}
