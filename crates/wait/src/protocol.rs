//! The lock-free protocols that the objects of one process and the shared ones have in common.

pub(crate) mod arrival_tree;
pub(crate) mod counted_futex;
#[cfg(not(loom))]
pub mod external;
pub(crate) mod generation;
pub(crate) mod last_arrival;
pub(crate) mod notification;
pub(crate) mod padded;
pub(crate) mod party;
#[cfg_attr(loom, allow(dead_code, reason = "other processes are not modelled"))]
pub mod process_slot;
pub(crate) mod raw_event;
pub(crate) mod raw_mutex;
pub(crate) mod raw_rwlock;
pub(crate) mod raw_semaphore;
pub mod robust;
pub(crate) mod shared_state;
pub mod spinning_waiters;
pub(crate) mod wait_loop;
pub(crate) mod wait_state;
