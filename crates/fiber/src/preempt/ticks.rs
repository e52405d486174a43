//! The timer of a kernel thread, and how a tick finds its worker.
//!
//! The timer belongs to the worker's own kernel thread. If fibers have [kernel
//! threads](crate::control_block::thread), each of these has a timer, too, and only the timer of
//! the thread that has the turn is set. Other threads know only the worker's own timer, and may
//! [fire it](crate::inbox::tick_request) at any time. If its thread does not have the turn, it
//! forwards the tick to the thread that does. If that one is just about to hand over the turn, no
//! fiber is interrupted, and the next tick is forwarded.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sys::tick::{ScriptedClock, Ticker};

use crate::inbox::tick_request::FireTimer;
use crate::worker_pointer::WorkerPointer;

/// How a tick finds its worker, and how other threads fire one. Freed with the worker, or when the
/// last thread that is about to fire one is done.
#[derive(Debug)]
pub(crate) struct Ticks {
    /// The worker that runs on the kernel thread. For a fiber's kernel thread, only
    /// while it has the turn.
    pub(super) worker: AtomicPtr<()>,
    /// The mark of the ticker of the kernel thread that has, or last had, the turn in place of the
    /// worker's own: ticks are forwarded to it. Otherwise 0.
    elsewhere: AtomicUsize,
    ticker: Option<Ticker>,
    pub(super) interval: Duration,
    /// The clock of a worker's ticks, if it is not the real one.
    clock: Option<ScriptedClock>,
    beginning: Instant,
    /// The earliest time for a requested tick, in nanoseconds since the beginning.
    pub(super) earliest: AtomicU64,
}

impl Ticks {
    /// The ticks of the calling thread, which runs as this worker.
    pub(super) fn new(
        worker: Option<WorkerPointer>,
        interval: Duration,
        clock: Option<&ScriptedClock>,
    ) -> std::io::Result<Arc<Ticks>> {
        let mut why = None;
        let ticks = Arc::new_cyclic(|ticks: &Weak<Ticks>| {
            let word = ticks.as_ptr().expose_provenance();
            let ticker = Ticker::for_this_thread(word).inspect_err(|error| why = Some(error.kind()));
            Ticks {
                worker: AtomicPtr::new(address_of(worker)),
                elsewhere: AtomicUsize::new(0),
                ticker: ticker.ok(),
                interval,
                clock: clock.cloned(),
                beginning: now(clock),
                earliest: AtomicU64::new(0),
            }
        });
        why.map_or(Ok(ticks), |why| Err(why.into()))
    }

    /// The ticks of the calling thread, which belongs to a fiber.
    pub(crate) fn for_fiber_thread() -> std::io::Result<Arc<Ticks>> {
        Ticks::new(None, Duration::ZERO, None)
    }

    /// Detaches the worker: the kernel thread has ended its work, or gives up the turn. For that
    /// thread itself.
    pub(crate) fn detach(&self) {
        self.worker.store(std::ptr::null_mut(), Release);
        self.stop();
    }

    /// The worker to interrupt, for a tick on the kernel thread of these ticks. Runs in a handler.
    ///
    /// # Safety
    /// That thread calls it.
    pub(super) unsafe fn worker(&self) -> Option<WorkerPointer> {
        let elsewhere = self.elsewhere.load(Acquire);
        if elsewhere != 0 {
            sys::tick::fire(elsewhere);
            return None;
        }
        let worker = NonNull::new(self.worker.load(Acquire)).map(WorkerPointer);
        if worker.is_none() {
            // It was forwarded when the turn was over.
            self.stop();
        }
        worker
    }

    /// Sets the ticks of the thread to which these are forwarded, or ends forwarding. Only the
    /// worker's own thread may do the latter.
    pub(super) fn forward_to(&self, theirs: Option<&Ticks>) {
        let mark = theirs.and_then(|theirs| theirs.ticker.as_ref()).map_or(0, Ticker::mark);
        self.elsewhere.store(mark, Release);
    }

    /// Sets the timer of these ticks, or of another kernel thread's, by the clock of these.
    pub(super) fn set(&self, theirs: &Ticks, first: Duration, interval: Duration) {
        match (&theirs.ticker, &self.clock) {
            (Some(ticker), None) => ticker.start(first, interval),
            (Some(ticker), Some(clock)) => ticker.start_by(clock, first, interval),
            (None, _) => (),
        }
    }

    /// The time since the beginning, in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        now(self.clock.as_ref()).saturating_duration_since(self.beginning).as_nanos() as u64
    }

    pub(super) fn stop(&self) {
        if let Some(ticker) = &self.ticker {
            ticker.stop();
        }
    }
}

impl FireTimer for Ticks {
    fn fire(&self) {
        let ahead = Duration::from_nanos(self.earliest.load(Relaxed).saturating_sub(self.now()));
        self.set(self, ahead, self.interval);
    }
}

fn now(clock: Option<&ScriptedClock>) -> Instant {
    clock.map_or_else(Instant::now, ScriptedClock::now)
}

pub(super) fn address_of(worker: Option<WorkerPointer>) -> *mut () {
    worker.map_or(std::ptr::null_mut(), |worker| worker.0.as_ptr())
}
