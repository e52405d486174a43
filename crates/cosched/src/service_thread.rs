//! Threads that serve the ranks of a job, each for one purpose.

use std::io;
use std::thread;

/// The size of their stacks. They call little, and the memory of the process may be limited.
const STACK: usize = 256 << 10;

/// Starts a thread with this name, which nothing waits for.
///
/// # Errors
/// If there is no memory for it, or there are too many threads.
pub(crate) fn start(name: &str, serve: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(serve);
    let failed = |why: io::Error| io::Error::new(why.kind(), format!("cannot start a thread for the ranks: {why}"));
    started.map(drop).map_err(failed)
}
