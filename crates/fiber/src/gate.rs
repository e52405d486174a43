//! What the objects that fibers wait at are made of: a value that only the fibers of one runtime touch, one at a time.
//!
//! A runtime with one worker needs no atomic operations for that: its fibers take turns on one kernel thread. So a gate belongs to the first runtime that
//! enters it, its *home*, until that is over; the fibers of another, and threads that are no fibers, are refused. With several workers the gate is
//! a spin lock, held for a few instructions: nobody waits inside.
//!
//! # Why whoever is inside is alone there
//! While a runtime with one worker is the home, only its one kernel thread gets inside. There a fiber gives up its CPU at waits and safe points only, and
//! inside there are none; code of the user's (a destructor, a comparison) is not called inside either, and if it were and came back, it would find the gate
//! busy and panic. Between several workers the spin lock decides.
//!
//! A home changes when its runtime is over, which those who run it declare when all its kernel threads have left it. Whoever is the first of another runtime to
//! find that out puts itself in [transit](TRANSIT), which keeps all others out, makes the value forget who waited, and is the home from then on. What was done
//! inside before is seen there: the end of a runtime is declared under a lock, under which it is then found out. Two runtimes may both find a gate without a home, or with one that
//! is over: the exchange decides, and who loses is refused.
//!
//! What is looked at inside may be changed outside, as the number of a channel's senders is. Who changes it goes inside to tell, if there is a home for it. Where the home is
//! just being made the two do not wait for each other: so who makes it looks after that, who changes something looks for a home after that, and there is a fence in between on both sides, of which
//! one is first. So either the change is seen inside, or the home is seen.
//!
//! # Why what waits inside is there
//! A state lists fibers of its home only, and a fiber is on the list only while it is blocked in a call that borrows the object. So an object cannot be dropped, or moved, as long as anybody waits at it.
//! A fiber that is left for good when its runtime ends, in the middle of a call, borrows for ever; its record goes with the runtime, though, and so the list
//! is forgotten when the next home comes.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};

use crate::worker::Worker;

/// No runtime's number: nobody is at home yet.
const NOBODY: u64 = 0;

/// No runtime's number, either: somebody is about to be at home. (Nor is [`Worker::sole`]'s of a runtime with several workers, which is no home's.)
const TRANSIT: u64 = u64::MAX - 1;

/// What can be behind a gate.
pub(crate) trait Gated {
    /// The home is over: those of its fibers that still wait will never be woken.
    fn forget_fibers(&mut self);
}

/// A value for the fibers of one runtime.
pub(crate) struct Gate<S> {
    /// The home's number.
    home: AtomicU64,
    /// Somebody is inside.
    busy: AtomicBool,
    state: UnsafeCell<S>,
}

// SAFETY: whoever is inside is alone there, and sees what was done inside before, as the module says.
unsafe impl<S: Send> Sync for Gate<S> {}

impl<S> Gate<S> {
    pub(crate) const fn new(state: S) -> Gate<S> {
        Gate { home: AtomicU64::new(NOBODY), busy: AtomicBool::new(false), state: UnsafeCell::new(state) }
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
}

impl<S: Gated> Gate<S> {
    /// Goes inside. What is done there takes a few instructions, and calls nobody else's code.
    ///
    /// # Panics
    /// When the gate belongs to another runtime, which is not over.
    #[inline(always)]
    pub(crate) fn enter<R>(&self, here: &Worker, then: impl FnOnce(&mut S) -> R) -> R {
        if self.is_own(here) {
            assert!(!self.busy.load(Relaxed), "an object that fibers wait at was entered from inside");
            self.busy.store(true, Relaxed);
        } else {
            self.enter_contended(here);
        }
        let _leaving = Leaving(&self.busy);
        // SAFETY: we are alone here.
        then(unsafe { &mut *self.state.get() })
    }

    /// Goes inside where others may want to, or where this is not the home yet.
    #[cold]
    #[inline(never)]
    fn enter_contended(&self, here: &Worker) {
        loop {
            // Once for both questions: in between, another worker of this runtime may make it the home.
            let home = self.home.load(Acquire);
            if home == here.runtime() {
                break;
            }
            let free = home == NOBODY || home != TRANSIT && !crate::shared::is_alive(home);
            if free && self.home.compare_exchange(home, TRANSIT, Acquire, Relaxed).is_ok() {
                // Nobody is inside: those of the old home are no more, and the others wait outside.
                self.busy.store(true, Relaxed);
                // SAFETY: as said.
                unsafe { &mut *self.state.get() }.forget_fibers();
                self.home.store(here.runtime(), Release);
                // As the module says.
                return fence(SeqCst);
            }
            assert!(
                free || home == TRANSIT,
                "an object that fibers wait at (a mutex, a channel, ...) belongs to the runtime that used it first, which is another one and still runs"
            );
            std::thread::yield_now();
        }
        while self.busy.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            let mut looks = 0;
            while self.busy.load(Relaxed) {
                looks += 1;
                // Who is inside may have lost its CPU.
                if looks % 128 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        }
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
