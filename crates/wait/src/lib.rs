#![doc = include_str!("../README.md")]
#![cfg_attr(loom, allow(unreachable_pub, reason = "modules that export it are not modelled"))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/waiting.md")]
mod guide {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/shared.md")]
mod guide_to_shared {}

pub mod calibrate;
mod deadline;
mod draw;
mod machine;
mod objects;
pub mod observer;
mod protocol;
#[cfg(not(loom))]
pub mod shared;
mod statistics;
mod sync;
#[cfg(all(test, not(loom)))]
mod timeouts;
pub mod turn;
mod waiting;

pub use calibrate::{Calibration, Measured, calibrate};
pub use deadline::{Deadline, TimedOut};
#[cfg(not(loom))]
pub use objects::thread_slots;
pub use objects::{barrier, condvar, event, latch, mutex, parker, rwlock, semaphore, word};
pub use policy::waiting::{Costs, ParseRuleError, WaitingRule};
#[doc(hidden)] // Only its loom model uses it.
pub use protocol::robust;
pub use protocol::spinning_waiters;
#[cfg(not(loom))]
pub use protocol::{external, process_slot};
pub use statistics::{Counters, Statistics};
pub use sync::now;
pub use waiting::Waiting;

pub use barrier::{Arrival, Barrier, BarrierWaitResult, Party};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use event::{Event, Reset};
pub use latch::Latch;
pub use mutex::{Mutex, MutexGuard};
pub use parker::{Parker, Unparker};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Overflow, Semaphore};
