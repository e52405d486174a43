//! Objects for several processes, in memory that all of them have mapped.
//!
//! The memory is a file with or without a path. It begins with a header by which each process
//! verifies its content. Otherwise it consists only of atomic integers: arbitrary writes to it can
//! make waits too long or too short, but have no other effect on the processes. Shortening a file
//! in use kills its users by SIGBUS. The length of a nameless file is sealed.
//!
//! The guide is `docs/shared.md`.
//!
//! # Lost processes
//!
//! Each process is recorded with its PID and its start time. A waiter checks every 100 ms, and at
//! its deadline, whether the awaited processes are alive, and returns an error that names the dead
//! one. So no wait for a killed process lasts forever.
//!
//! * Parties that have *not joined yet* are awaited: a team takes time to assemble.
//! * A *thread* that ends without dropping its party (it was forgotten, or is stuck) is not lost
//!   while its process lives.
//! * Processes detect each other's end *within one PID namespace*, that of the creator of the
//!   object. A party in another one, as in another container, can wait and be awaited, but only a
//!   deadline ends a wait for it after its death. The same holds if `/proc` is not mounted, or if
//!   it is hidden and the PID has been reused.
//! * A process that *executes another program* is the same process, and is alive.

mod barrier;
mod event;
#[allow(unsafe_code)] // Memory that other processes write to is accessed as types of this crate.
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

/// The reason why a wait at a semaphore or an event has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitFailure {
    /// The deadline has passed.
    #[error("the deadline passed before the awaited event occurred")]
    TimedOut,
    /// A process has died with the object open, and may be the awaited one.
    #[error("process {pid} has died with the object open, and may be the awaited one")]
    Abandoned {
        /// One such process.
        pid: u32,
    },
}
