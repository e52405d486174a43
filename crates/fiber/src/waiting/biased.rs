//! A value that one thread at a time accesses: the state of an object at which fibers, threads and
//! futures wait.
//!
//! The lock is *biased*: as long as only the fibers of one runtime with one worker use the object,
//! they take turns on one kernel thread, and an access costs a few loads and stores. The first
//! access from elsewhere revokes the bias for good. From then on an access takes an ordinary lock.
//! (Russell and Detlefs, "Eliminating synchronization-related atomic operations with biased locking
//! and bulk rebiasing", OOPSLA 2006.)
//!
//! # Why one thread at a time is inside
//! All threads but those of the *owner*, to which the object is biased, hold the lock. The owner
//! marks the object as busy and then reads its bias again. A thread that revokes the
//! bias holds the lock, writes that it does so, and then reads the mark until it is clear. If both
//! sides had a full fence in between, one of them would see the other. The owner has only a fence
//! for the compiler. The other side calls `membarrier` instead, which executes a full fence on
//! every CPU that runs a thread of the process; a thread that does not run has executed one when it
//! lost its CPU. If the kernel has no such call, nothing is ever biased.
//!
//! When the owner is outside, the revoking thread writes that the object is shared. A path that
//! touches words without the lock (see [`RawMutex`](crate::RawMutex)) may do so once it has read
//! that, and the owner while it is [inside](Biased::if_biased). The model explores the same code
//! with full fences on both sides.

use std::cell::UnsafeCell;

use self::protocol::Bias;
use crate::shared::NO_RUNTIME;
use crate::worker::Worker;

mod protocol;

pub(crate) struct Biased<S> {
    bias: Bias,
    state: UnsafeCell<S>,
}

// SAFETY: one thread at a time is inside, and sees what was done there before, as the module
// explains.
unsafe impl<S: Send> Sync for Biased<S> {}

impl<S> Biased<S> {
    pub(crate) const fn new(state: S) -> Biased<S> {
        Biased { bias: Bias::new(), state: UnsafeCell::new(state) }
    }

    /// Calls a function inside, if the object is biased to this worker's runtime.
    #[inline(always)]
    pub(crate) fn if_biased<R>(&self, here: &Worker, then: impl FnOnce() -> R) -> Option<R> {
        self.bias.try_enter(here.sole).then(|| {
            let result = then();
            self.bias.leave();
            result
        })
    }

    /// Whether it is biased to no runtime, and never will be.
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.bias.is_shared()
    }

    /// Calls a function with the state, on a worker or on another thread. It must take a few
    /// instructions only, and must neither panic nor call user code.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, here: Option<&Worker>, then: impl FnOnce(&mut S) -> R) -> R {
        let caller = here.map_or(NO_RUNTIME, |here| here.sole);
        // SAFETY: it is called inside.
        let call = || then(unsafe { &mut *self.state.get() });
        if self.bias.try_enter(caller) {
            let result = call();
            self.bias.leave();
            result
        } else {
            self.bias.with_lock(caller, call)
        }
    }
}

/// The real atomics and fences.
mod world {
    use std::sync::OnceLock;
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::atomic::compiler_fence;

    use rustix::thread::{MembarrierCommand, membarrier};

    pub(super) use std::sync::Mutex;
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};
    pub(super) use std::thread::yield_now;

    macro_rules! const_fn {
        ($visibility:vis fn $($rest:tt)+) => { $visibility const fn $($rest)+ };
    }
    pub(super) use const_fn;

    /// The owner's fence, between its mark and its second look.
    #[inline(always)]
    pub(super) fn owner_fence() {
        compiler_fence(SeqCst);
    }

    /// The fence of the thread that revokes a bias.
    pub(super) fn revoker_fence() {
        // In a child process that a fork has made, the registration may be gone.
        while membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            let _ = membarrier(MembarrierCommand::RegisterPrivateExpedited);
        }
    }

    /// Whether the kernel has this call.
    pub(super) fn can_be_biased() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
    }
}

#[cfg(all(test, loom))]
mod model;
