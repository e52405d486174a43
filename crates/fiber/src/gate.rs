//! A gate: a value that only the fibers of one runtime access, one at a time. All objects at which
//! fibers wait have one.
//!
//! A runtime with one worker needs no atomic operations for that: its fibers take turns on one
//! kernel thread. So a gate belongs to the first runtime that enters it, its *home*, until that is
//! over; fibers of other runtimes, and other threads, are refused. With several workers the gate is
//! a spin lock, held for a few instructions: no fiber waits inside.
//!
//! # Why a fiber inside is alone there
//! While a runtime with one worker is the home, only its one kernel thread gets inside. A fiber
//! gives up its CPU only at waits and safepoints, and there are none inside. User code (a
//! destructor, a comparison) is not called inside either; if it were and entered the gate again, it
//! would find it busy and panic. Between several workers the spin lock decides.
//!
//! A home changes after its runtime is over, which is declared when all its kernel threads have
//! left it. The first fiber of another runtime that finds this puts the gate in [transit](TRANSIT),
//! which keeps all others out, makes the value forget its waiters, and makes its own runtime the
//! home. Earlier work inside is visible there: the end of a runtime is declared under a
//! lock, and checked under the same lock. Two runtimes may both find a gate without a home, or with
//! one that is over: the exchange decides, and the loser is refused.
//!
//! Some of what is read inside may be changed outside, such as the number of a channel's senders.
//! The thread that changes it enters the gate to tell the waiters, if its runtime is the home. If
//! the home is just being made, neither thread waits for the other. The thread that makes the home
//! reads the value afterwards, and the thread that changes the value looks for a home afterwards.
//! Both have a fence in between, one of which is first. So either the change is seen inside, or the
//! home is seen.
//!
//! # Why the fibers on a list exist
//! A state lists only fibers of its home, and a fiber is on the list only while it is blocked in a
//! call that borrows the object. So an object cannot be dropped or moved while a fiber waits at it.
//! A fiber that remains for good when its runtime ends, in the middle of a call, borrows forever.
//! But its record is freed with the runtime, and so the next home forgets the list.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use crate::worker::Worker;

/// Not a runtime's number: the gate has no home yet.
const NO_RUNTIME: u64 = 0;

/// Not a runtime's number: the home is changing. ([`Worker::sole`] of a runtime with several
/// workers has no home's number either.)
const TRANSIT: u64 = u64::MAX - 1;

/// The objects that can be behind a gate.
pub(crate) trait Gated {
    /// The home is over: its fibers that still wait will never be woken.
    fn forget_fibers(&mut self);
}

/// A value for the fibers of one runtime.
pub(crate) struct Gate<S> {
    /// The home's number.
    home: AtomicU64,
    /// A fiber is inside.
    busy: AtomicBool,
    state: UnsafeCell<S>,
}

// SAFETY: a fiber inside is alone there, and sees what was done inside before, as the module
// explains.
unsafe impl<S: Send> Sync for Gate<S> {}

impl<S> Gate<S> {
    pub(crate) const fn new(state: S) -> Gate<S> {
        Gate { home: AtomicU64::new(NO_RUNTIME), busy: AtomicBool::new(false), state: UnsafeCell::new(state) }
    }

    /// Whether this worker's runtime is the home.
    #[inline(always)]
    pub(crate) fn is_home(&self, here: &Worker) -> bool {
        self.home.load(Acquire) == here.runtime()
    }

    /// Whether this worker's runtime is the home, and has no other worker: then only this kernel
    /// thread accesses the gate.
    #[inline(always)]
    pub(crate) fn is_own(&self, here: &Worker) -> bool {
        self.home.load(Relaxed) == here.sole()
    }
}

impl<S: Gated> Gate<S> {
    /// Calls a function inside. It must take a few instructions only, and call no user code.
    ///
    /// # Panics
    /// If the gate belongs to another runtime that is not over.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, here: &Worker, then: impl FnOnce(&mut S) -> R) -> R {
        if self.is_own(here) {
            assert!(!self.busy.load(Relaxed), "an object at which fibers wait was entered again from inside");
            self.busy.store(true, Relaxed);
        } else {
            self.enter_contended(here);
        }
        let _leaving = Leaving(&self.busy);
        // SAFETY: this fiber is alone here.
        then(unsafe { &mut *self.state.get() })
    }

    /// Enters a gate which others may want to enter, too, or whose home is not this runtime yet.
    #[cold]
    #[inline(never)]
    fn enter_contended(&self, here: &Worker) {
        loop {
            // One load for both questions: in between, another worker of this runtime may make it
            // the home.
            let home = self.home.load(Acquire);
            if home == here.runtime() {
                break;
            }
            let free = home == NO_RUNTIME || home != TRANSIT && !crate::shared::is_alive(home);
            if free && self.home.compare_exchange(home, TRANSIT, Acquire, Relaxed).is_ok() {
                // The gate is empty: fibers of the old home do not exist any more, and others wait
                // outside.
                self.busy.store(true, Relaxed);
                // SAFETY: see above.
                unsafe { &mut *self.state.get() }.forget_fibers();
                self.home.store(here.runtime(), Release);
                // See the module.
                return fence(SeqCst);
            }
            assert!(
                free || home == TRANSIT,
                "an object at which fibers wait (a mutex, a channel, ...) belongs to another runtime, which used it first and still runs"
            );
            std::thread::yield_now();
        }
        while self.busy.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            let mut looks = 0;
            while self.busy.load(Relaxed) {
                looks += 1;
                // The fiber inside may have lost its CPU.
                if looks % 128 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        }
    }
}

/// Leaves the gate, even if the function inside panics.
struct Leaving<'a>(&'a AtomicBool);

impl Drop for Leaving<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}
