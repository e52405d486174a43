//! What the objects that fibers wait at are made of: a value that only the fibers of one runtime touch, one at a time.
//!
//! A runtime with one worker needs no atomic operations for that: its fibers take turns on one kernel thread. So a gate belongs to the first runtime that
//! enters it, its *home*, until that is over; the fibers of another, and threads that are no fibers, are refused. With several workers the gate is
//! a spin lock, held for a few instructions: nobody waits inside.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::worker::Worker;

/// A value for the fibers of one runtime.
pub(crate) struct Gate<S> {
    /// The home's number, and zero before there is one.
    home: AtomicU64,
    /// Somebody is inside.
    busy: AtomicBool,
    state: UnsafeCell<S>,
}

// SAFETY: whoever is inside is alone there: with several workers by the spin lock, with one because inside nobody gives up the CPU and `busy` refuses
// whoever comes back from inside; a home changes when its runtime is over, which happens before the next one's first entry.
unsafe impl<S: Send> Sync for Gate<S> {}

impl<S> Gate<S> {
    pub(crate) const fn new(state: S) -> Gate<S> {
        Gate { home: AtomicU64::new(0), busy: AtomicBool::new(false), state: UnsafeCell::new(state) }
    }

    /// Whether this worker's runtime is the home.
    #[inline(always)]
    pub(crate) fn is_home(&self, here: &Worker) -> bool {
        self.home.load(Acquire) == here.runtime()
    }

    /// Whether this worker's runtime is the home, and it is its only worker: whatever belongs to the gate is this kernel thread's alone.
    #[inline(always)]
    pub(crate) fn is_own(&self, here: &Worker) -> bool {
        self.home.load(Relaxed) == here.sole()
    }

    /// Goes inside.
    ///
    /// # Panics
    /// When the gate belongs to another runtime, which is not over.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, here: &Worker, then: impl FnOnce(&mut S) -> R) -> R {
        if !self.is_home(here) {
            self.come_home(here);
        }
        if here.is_alone() {
            assert!(!self.busy.load(Relaxed), "an object that fibers wait at was entered from inside");
            self.busy.store(true, Relaxed);
        } else {
            self.spin();
        }
        let _leaving = Leaving(&self.busy);
        // SAFETY: we are alone here.
        then(unsafe { &mut *self.state.get() })
    }

    #[cold]
    fn come_home(&self, here: &Worker) {
        let home = self.home.load(Relaxed);
        let free = home == 0 || !crate::shared::is_alive(home);
        let came = free && self.home.compare_exchange(home, here.runtime(), Acquire, Relaxed).is_ok();
        assert!(
            came || self.is_home(here),
            "an object that fibers wait at (a mutex, a channel, ...) belongs to the runtime that used it first, which is another one and still runs"
        );
    }

    #[inline]
    fn spin(&self) {
        while self.busy.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            let mut looks = 0;
            while self.busy.load(Relaxed) {
                looks += 1;
                // Who is inside may have lost its CPU.
                if looks % 128 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        self.state.get_mut()
    }
}

/// Leaves the gate, also when what was to be done inside panics.
struct Leaving<'a>(&'a AtomicBool);

impl Drop for Leaving<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}
