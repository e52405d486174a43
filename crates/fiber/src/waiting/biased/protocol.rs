//! The words of a biased lock, and who is inside.

use super::world::{AtomicU32, AtomicU64, Mutex, can_be_biased, const_fn, owner_fence, revoker_fence, yield_now};
use crate::shared::NO_RUNTIME;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// No thread has been inside.
const UNUSED: u64 = 0;
/// Biased to no runtime.
const SHARED: u64 = u64::MAX - 1;
/// A thread that holds the lock waits until the owner is outside.
const REVOKING: u64 = u64::MAX - 2;

/// A lock without the value that it guards.
pub(crate) struct Bias {
    /// The number of the runtime that owns it, or one of the constants.
    owner: AtomicU64,
    lock: Mutex<()>,
    /// The owner is inside.
    busy: AtomicU32,
}

impl Bias {
    const_fn! {
        pub(crate) fn new() -> Bias {
            Bias { owner: AtomicU64::new(UNUSED), lock: Mutex::new(()), busy: AtomicU32::new(0) }
        }
    }

    /// Whether it is biased to no runtime, and never will be.
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.owner.load(Acquire) == SHARED
    }

    /// Enters, if the caller is the owner. Returns whether it is inside.
    #[inline(always)]
    pub(crate) fn try_enter(&self, caller: u64) -> bool {
        if self.owner.load(Relaxed) != caller {
            return false;
        }
        self.busy.store(1, Relaxed);
        owner_fence();
        let is_inside = self.owner.load(Relaxed) == caller;
        if !is_inside {
            self.leave();
        }
        is_inside
    }

    /// Leaves, after [`try_enter`](Bias::try_enter).
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.busy.store(0, Release);
    }

    /// Calls a function inside. The caller becomes the owner, if it is a runtime with one worker
    /// and nothing has been inside before; otherwise there is no owner from now on.
    #[cold]
    #[inline(never)]
    pub(crate) fn with_lock<R>(&self, caller: u64, then: impl FnOnce() -> R) -> R {
        let _locked = self.lock.lock();
        let owner = self.owner.load(Acquire);
        if owner == UNUSED {
            self.owner.store(if caller != NO_RUNTIME && can_be_biased() { caller } else { SHARED }, Release);
        } else if owner != SHARED && owner != caller {
            self.owner.store(REVOKING, Relaxed);
            revoker_fence();
            while self.busy.load(Acquire) != 0 {
                // The owner may have lost its CPU.
                yield_now();
            }
            self.owner.store(SHARED, Release);
        }
        let result = then();
        if cfg!(rowlock_tsan) {
            // The thread sanitizer does not see locks of the standard library.
            self.owner.store(self.owner.load(Relaxed), Release);
        }
        result
    }
}
