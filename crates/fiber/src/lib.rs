#![doc = include_str!("../README.md")]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/fibers.md")]
struct Guide;

#[allow(unsafe_code)] // Registers and stacks are the processor's.
mod arch;
mod barrier;
mod blocking;
mod calls;
#[allow(unsafe_code)] // Fibers are left and gone on with.
mod change;
mod channel;
mod channel_error;
mod clock;
mod condvar;
#[allow(unsafe_code)] // Stacks are left for others, with what belongs to a thread.
mod control_block;
#[allow(unsafe_code)] // What blocked fibers wait for is asked, which is on their stacks.
mod deadlock;
#[allow(unsafe_code)] // A debugger finds things by the names of their symbols.
mod debugger;
#[allow(unsafe_code)] // What blocked fibers wait for is asked, and their stacks are looked at.
mod dump;
#[allow(unsafe_code)] // A fiber goes to the thread that wakes it.
mod ending;
mod error;
mod eventcount;
#[doc(hidden)]
pub mod foreign;
pub mod fs;
#[allow(unsafe_code)] // Who is inside is alone with what is there.
mod gate;
#[allow(unsafe_code)] // Who has a lock is alone with what it guards.
mod guarded;
#[allow(unsafe_code)] // A kernel thread points to the worker that it is.
mod here;
#[allow(unsafe_code)] // A fiber points to the worker that is its home.
mod idle;
#[allow(unsafe_code)] // What is on a list of items is pointed to.
mod inbox;
#[allow(unsafe_code)] // A fiber's outcome is taken by who has its handle.
mod join;
mod local;
mod lock;
mod mutex;
pub mod net;
mod once;
mod outside;
mod pollable;
mod pool;
#[allow(unsafe_code)] // A handler leaves the stack that it is on.
mod preempt;
#[allow(unsafe_code)] // A preemptible fiber is found by its thread-local.
mod preemptible;
#[allow(unsafe_code)] // Lists go through the records of fibers.
mod queue;
mod reactor;
#[allow(unsafe_code)] // Records are where they are put, and their owners touch them.
mod record;
#[allow(unsafe_code)] // Fibers are made and given back by threads that are none.
mod remote;
#[allow(unsafe_code)] // A kernel thread becomes a worker.
mod runtime;
mod rwlock;
mod schedule_fuzzer;
#[allow(unsafe_code)] // What fibers borrow is there until the scope has outlasted them.
mod scope;
mod semaphore;
mod share;
#[allow(unsafe_code)] // What a runtime leaves behind goes with the last handle.
mod shared;
pub mod soundness;
#[allow(unsafe_code)] // What a fiber runs borrows nothing, or a scope says so.
mod spawn;
#[allow(unsafe_code)] // Memory is given to be run on.
mod stack;
#[allow(unsafe_code)] // A fiber begins on a stack of its own.
mod start;
mod sync;
#[allow(unsafe_code)] // A function and its outcome share a place.
mod task;
mod time;
#[allow(unsafe_code)] // Its tests make records.
mod time_accounting;
mod timers;
#[allow(unsafe_code)] // A stack that was left is looked at.
mod trace;
mod unstarted;
mod unwinding;
mod waits;
#[allow(unsafe_code)] // What a worker points to outlives it, and what is its own is touched by its kernel thread alone.
mod worker;

pub use barrier::{Barrier, BarrierWaitResult};
pub use blocking::blocking;
pub use channel::{Receiver, Sender, channel, unbounded};
pub use channel_error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
pub use condvar::Condvar;
pub use control_block::PreemptBy;
pub use deadlock::Deadlock;
pub use dump::{Activity, Dump, FiberLabel, FiberSnapshot, FiberWait, StackUse, current, dump};
pub use ending::exit;
pub use error::{JoinError, PreemptionError, RunError, SpawnError, StackError, ThreadBlockError, TimedOut};
pub use join::JoinHandle;
pub use local::LocalKey;
pub use mutex::{Mutex, MutexGuard};
pub use once::OnceCell;
pub use pollable::Pollable;
pub use preempt::{Preemptions, preemptions};
pub use remote::{Remote, remote};
pub use runtime::{Config, Runtime, run};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use schedule_fuzzer::{Among, Deterministic, explore, explore_with};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use semaphore::{Permit, Semaphore};
pub use spawn::{Builder, spawn};
pub use sys::tick::ScriptedClock;
pub use time::{now, sleep, sleep_until};
pub use trace::Trace;

use worker::Here;

/// Yields to other fibers: the caller moves behind those of its level.
///
/// # Panics
/// If called outside a runtime.
#[inline(always)]
pub fn yield_now() {
    Here::enter(|here| here.yield_now());
}

/// A safepoint for long computations that wait for nothing: the fiber gives up its CPU if it has
/// used up its running time, or if a fiber at a higher level has become ready.
///
/// # Panics
/// If called outside a runtime.
#[inline(always)]
pub fn checkpoint() {
    Here::enter(|here| here.safepoint());
}

/// How often a fiber of this runtime has used up its running time, and so was lowered by a level or
/// stayed at the lowest.
///
/// # Panics
/// If called outside a runtime.
pub fn demotions() -> u64 {
    Here::enter(|here| here.core().demotions())
}
