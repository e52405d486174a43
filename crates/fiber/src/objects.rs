//! The objects at which fibers, threads and futures wait.

pub(crate) mod barrier;
pub(crate) mod channel;
pub(crate) mod condvar;
pub(crate) mod event;
pub(crate) mod mutex;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
