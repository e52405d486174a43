//! The objects at which the threads of one process wait.

pub mod barrier;
pub mod condvar;
pub mod event;
#[allow(unsafe_code)] // Only a lock knows when its value may be borrowed mutably.
mod guarded;
pub mod latch;
pub mod mutex;
pub mod parker;
pub mod rwlock;
pub mod semaphore;
#[cfg(not(loom))]
#[allow(unsafe_code)] // A thread slot stores a party together with the barrier that it borrows.
pub mod thread_slots;
pub mod word;
