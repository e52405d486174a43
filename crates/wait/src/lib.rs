#![doc = include_str!("../README.md")]
#![cfg_attr(loom, allow(unreachable_pub, reason = "modules that export it are not modelled"))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/waiting.md")]
mod guide {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/shared.md")]
mod guide_to_shared {}

pub mod barrier;
pub mod calibrate;
pub mod condvar;
mod counted;
mod deadline;
mod draw;
pub mod event;
#[cfg(not(loom))]
pub mod foreign;
mod generation;
#[allow(unsafe_code)] // Only a lock knows that a value can be lent to be changed.
mod guarded;
mod hall;
mod here;
pub mod latch;
mod ledger;
mod load;
pub mod lookers;
#[cfg_attr(loom, allow(dead_code, reason = "other processes are not modelled"))]
mod member;
pub mod mutex;
mod outlast;
pub mod parker;
mod raw_mutex;
mod raw_rwlock;
#[doc(hidden)] // Its model has to see it, nobody else.
pub mod robust;
pub mod rwlock;
#[cfg(not(loom))]
#[allow(unsafe_code)] // A seat keeps a member together with the barrier that it borrows from.
pub mod seat;
pub mod semaphore;
#[cfg(not(loom))]
pub mod shared;
mod sighting;
mod statistics;
mod sync;
#[cfg(all(test, not(loom)))]
mod timeouts;
mod waiting;
pub mod watch;
pub mod word;

pub use barrier::{Arrival, Barrier, BarrierWaitResult, Party};
pub use calibrate::{Calibration, Measured, calibrate};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use deadline::TimedOut;
pub use event::{Event, Reset};
pub use latch::Latch;
pub use mutex::{Mutex, MutexGuard};
pub use parker::{Parker, Unparker};
pub use policy::waiting::{Costs, ParseRuleError, Rule};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Overflow, Semaphore};
pub use statistics::{Counters, Statistics};
pub use waiting::Waiting;
