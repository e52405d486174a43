//! The processes of a job: which there are, what they do, and stopping and continuing them.
//!
//! The agent that switches at a boundary stops and continues the processes of all jobs, of which it
//! knows the [identities](sys::identity::Identity) and one word of shared memory each, the
//! [`mark`], which says whether the process is stopped *by us*. A stop by a shell, a user or a
//! debugger is never undone by us.
//!
//! Parents are stopped before their children and continued after them: see [`Processes`].

mod demand;
mod descendants;
mod last_thread;
pub mod mark;
mod observer;
mod open_processes;
mod process;
mod status;
#[cfg(test)]
pub(crate) mod tests;

pub use self::demand::Demand;
pub use self::descendants::descendants;
pub(crate) use self::descendants::family;
pub use self::last_thread::{LastThreads, last_thread};
pub(crate) use self::observer::threads;
pub use self::observer::{Observer, ThreadDelta};
pub use self::open_processes::Processes;
pub(crate) use self::process::may_be_signalled;
pub use self::process::{Outcome, Process, signal};
