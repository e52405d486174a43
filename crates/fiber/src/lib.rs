#![doc = include_str!("../README.md")]
#![allow(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/fibers.md")]
struct Guide;

mod arch;
mod barrier;
mod bell;
mod blocking;
mod calls;
mod chance;
mod channel;
mod channel_error;
mod clock;
mod condvar;
mod deadlock;
mod debugger;
mod dump;
mod ending;
mod error;
#[doc(hidden)]
pub mod foreign;
mod fresh;
pub mod fs;
mod gate;
mod guarded;
mod here;
mod idle;
mod join;
mod local;
mod lock;
mod mail;
mod meter;
mod mutex;
pub mod net;
mod once;
mod outside;
mod pollable;
mod pool;
mod queue;
mod reactor;
mod record;
mod remote;
mod runtime;
mod rwlock;
mod scope;
mod semaphore;
mod share;
mod shared;
pub mod soundness;
mod spawn;
mod stack;
mod start;
mod sync;
mod task;
mod time;
mod timers;
mod trace;
mod unwinding;
mod waits;
mod worker;

pub use barrier::{Barrier, BarrierWaitResult};
pub use blocking::blocking;
pub use chance::{Among, Deterministic, explore, explore_with};
pub use channel::{Receiver, Sender, channel, unbounded};
pub use channel_error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
pub use condvar::Condvar;
pub use deadlock::Deadlock;
pub use dump::{Doing, Dump, Label, Seen, StackUse, Waiting, dump};
pub use ending::exit;
pub use error::{JoinError, RunError, SpawnError, StackError, TimedOut};
pub use join::JoinHandle;
pub use local::LocalKey;
pub use mutex::{Mutex, MutexGuard};
pub use once::OnceCell;
pub use pollable::Pollable;
pub use remote::{Remote, remote};
pub use runtime::{Config, Runtime, run};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use semaphore::{Permit, Semaphore};
pub use spawn::{Builder, spawn};
pub use time::{now, sleep, sleep_until};
pub use trace::Trace;

use worker::Here;

/// Lets others run: the fiber goes behind those of its level.
///
/// # Panics
/// Where no runtime runs.
#[inline(always)]
pub fn yield_now() {
    Here::expect().yield_now();
}

/// A point at which the fiber gives up its CPU if it has used up its running time, or if one at a higher level has become ready: for long
/// computations that wait for nothing.
///
/// # Panics
/// Where no runtime runs.
#[inline(always)]
pub fn checkpoint() {
    Here::expect().point();
}

/// How often a fiber of this runtime has used up its running time, and so has gone down by a level or stayed at the lowest.
///
/// # Panics
/// Where no runtime runs.
pub fn demotions() -> u64 {
    Here::expect().core().demotions()
}
