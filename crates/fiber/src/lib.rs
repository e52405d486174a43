#![doc = include_str!("../README.md")]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/fibers.md")]
struct Guide;

#[allow(unsafe_code)] // It switches registers and stacks.
mod arch;
mod attraction;
#[allow(unsafe_code)] // It switches between fibers.
mod change;
mod clock;
mod config;
#[allow(unsafe_code)] // It switches stacks, with what belongs to a thread.
mod control_block;
#[allow(unsafe_code)] // A kernel thread points to its worker.
mod current_worker;
#[allow(unsafe_code)] // It reads what blocked fibers wait for on their stacks.
mod deadlock;
mod debug;
#[allow(unsafe_code)] // It sends a fiber to the thread that wakes it.
mod ending;
#[allow(unsafe_code)] // It reads and writes the error of the C library.
mod errno;
mod error;
mod event;
mod explore;
#[allow(unsafe_code)] // Thread-locals point to the worker.
mod fiber_thread;
#[allow(unsafe_code)] // A fiber's function borrows nothing.
#[doc(hidden)]
pub mod foreign;
#[allow(unsafe_code)] // A fiber points to its home worker.
mod idle;
#[allow(unsafe_code)] // Items are linked by pointers.
mod inbox;
#[allow(unsafe_code)] // It defines functions of the C library.
#[cfg(interposed)]
mod interposed;
#[allow(unsafe_code)] // The owner of a handle takes the fiber's outcome.
mod join;
mod label;
mod moving;
#[allow(unsafe_code)] // Locks say who may access their values.
mod objects;
mod offered;
mod pin;
mod pollable;
mod pool;
#[allow(unsafe_code)] // A handler leaves its stack.
mod preempt;
#[allow(unsafe_code)] // Lists are linked through records.
mod queue;
mod reactor;
mod readiness;
#[allow(unsafe_code)] // Records have stable addresses, and only their owners touch them.
mod record;
#[allow(unsafe_code)] // Other threads spawn and release fibers.
mod remote;
mod rounds;
#[allow(unsafe_code)] // It makes a kernel thread a worker.
mod runtime;
mod schedule_fuzzer;
#[allow(unsafe_code)] // Data that fibers borrow lives until the scope ends.
mod scope;
#[allow(unsafe_code)] // The last handle frees what a runtime leaves behind.
mod shared;
pub mod soundness;
#[allow(unsafe_code)] // A fiber's function borrows nothing, or only in a scope.
mod spawn;
#[allow(unsafe_code)] // It makes stacks.
mod stack;
#[allow(unsafe_code)] // It starts fibers on stacks.
mod start;
mod sync;
#[allow(unsafe_code)] // A function and its outcome share a space.
mod task;
mod time;
#[allow(unsafe_code)] // Its tests make records.
mod time_accounting;
mod timers;
#[allow(unsafe_code)] // It names descriptors by their numbers.
mod trust;
#[allow(unsafe_code)] // Passes the CPU from one kernel thread of a worker to another.
mod turns;
mod unwinding;
mod waitable;
#[allow(unsafe_code)] // Waiters are linked by pointers, and one thread at a time has an object.
mod waiting;
#[allow(unsafe_code)] // A fiber points to its home worker.
mod wake;
mod watcher;
#[allow(unsafe_code)] // Only its kernel thread touches what belongs to a worker.
mod worker;
mod worker_pointer;

pub use config::Config;
pub use control_block::ThreadControlBlocks;
pub use deadlock::Deadlock;
pub use debug::dump::{Activity, Dump, FiberSnapshot, FiberWait, StackUse, dump};
pub use debug::trace::Trace;
pub use ending::exit;
pub use error::{JoinError, PreemptionError, SpawnError, StackError, ThreadBlockError, TimedOut};
pub use explore::{explore, explore_with};
pub use join::JoinHandle;
pub use label::FiberLabel;
pub use objects::barrier::{Barrier, BarrierWaitResult};
pub use objects::channel::{Receiver, Sender, channel, unbounded};
pub use objects::condvar::Condvar;
pub use objects::event::{Event, block_on};
pub use objects::mutex::{Mutex, MutexGuard, RawMutex, lock_async};
pub use objects::rwlock::{RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use objects::semaphore::{Permit, Semaphore};
pub use pin::{Pin, pin};
pub use pollable::Pollable;
pub use pool::blocking;
pub use preempt::{Preemptions, preemptions};
pub use remote::{Remote, remote};
pub use runtime::{RunError, Runtime, run};
pub use schedule_fuzzer::{Candidates, RandomSchedule};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use spawn::{Builder, spawn};
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};
pub use sys::tick::ScriptedClock;
pub use time::{now, sleep, sleep_until};

use current_worker::CurrentWorker;

/// Yields to other fibers: the caller moves behind those of its level.
///
/// # Panics
/// If called outside a runtime.
#[inline(always)]
pub fn yield_now() {
    CurrentWorker::enter(|here| here.yield_now());
}

/// A safepoint for long computations that wait for nothing: the fiber gives up its CPU if it has
/// used up its running time, or if a fiber at a higher level has become ready.
///
/// # Panics
/// If called outside a runtime.
#[inline(always)]
pub fn checkpoint() {
    CurrentWorker::enter(|here| here.safepoint());
}

/// The number and name of the calling fiber.
///
/// # Panics
/// If called outside a runtime.
///
/// ```
/// rowlock_fiber::run(|| {
///     let parser = rowlock_fiber::Builder::new().name("parser");
///     let label = parser.spawn(rowlock_fiber::current).unwrap().join().unwrap();
///     assert_eq!(label.name.as_deref(), Some("parser"));
///     assert_eq!(rowlock_fiber::current().to_string(), "fiber 0");
/// });
/// ```
pub fn current() -> FiberLabel {
    CurrentWorker::enter(|here| FiberLabel::of(here.current()))
}

/// How often a fiber of this runtime has used up its running time, and so was lowered by a level or
/// stayed at the lowest.
///
/// # Panics
/// If called outside a runtime.
pub fn demotions() -> u64 {
    CurrentWorker::enter(|here| here.core().demotions.load(std::sync::atomic::Ordering::Relaxed))
}
