//! Objects that several processes share, in memory that each of them has mapped.
//!
//! The memory is a file, by a path or without a name. It begins with a header by which each process sees that it is what it
//! takes it for, and is otherwise nothing but atomic integers: whatever anybody writes to it can make the members wait
//! in vain or too short, but does nothing else to their processes. A file that is *shortened* while it is in use kills its
//! users by SIGBUS; the length of a nameless one cannot be changed.
//!
//! # Who is gone
//!
//! Each member's process is on record with its number and its start. A member that waits for others looks every 100 ms, and
//! at its deadline, whether those live that it waits for, and gives up with an error that names who does not. So nobody
//! waits for ever for a process that has been killed, at whatever moment.
//!
//! * Members that have *not joined yet* are awaited: a team takes its time to come together.
//! * A *thread* that ends without dropping its member (it was forgotten, or is stuck) is not seen to be gone while its process lives.
//! * Processes see each other end *within one PID namespace*, that of the process that made the object. A member from another
//!   one, as in another container, can wait and be waited for, but it takes a deadline to find out that it is gone. So it is where
//!   `/proc` is hidden and the number of a process that has ended is used again.

mod barrier;
#[allow(unsafe_code)] // What other processes write to is seen as this crate's types.
mod memory;

pub use barrier::{Barrier, Full, Lost, Party, WaitError};
pub use memory::{Kind, MOST_MEMBERS, MemoryError, unlink};
