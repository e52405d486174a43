//! When ticks come, and to which kernel thread.
//!
//! The timer belongs to the worker's own kernel thread. If fibers have [kernel
//! threads](crate::control_block::thread), each of these has a timer, too, and only the timer of
//! the thread that has the turn is set. Other threads know only the worker's own timer, and may
//! fire it at any time. If its thread does not have the turn, it forwards the tick to the thread
//! that does. If that one is just about to hand over the turn, no fiber is interrupted, and the
//! next tick is forwarded.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, compiler_fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sys::tick::{ScriptedClock, Ticker};

use super::{Preemption, grace};
use crate::control_block::thread::KernelThread;
use crate::inbox::stopped_timer::FireTimer;
use crate::record::{Fiber, State};
use crate::worker::Worker;

/// The interval at which the worker checks whether a running fiber that is not preemptible waits
/// for something that an interrupted fiber holds.
const SLOW: Duration = Duration::from_millis(10);

/// Ticks are at least this far apart, except for short running times: each costs the kernel some
/// microseconds.
const SOONEST: Duration = Duration::from_micros(50);

/// The time of the next tick if the timer must be set again before a fiber runs.
const SET_AGAIN: u64 = u64::MAX;

/// When the next tick comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticking {
    Never,
    /// At this time.
    At(Instant),
    /// Every [`SLOW`].
    Slowly,
    /// At the next deadline or the end of a running time, whichever is earlier.
    On,
}

/// How a tick finds its worker, and how other threads fire one. Freed with the worker, or when the
/// last thread that is about to fire one is done.
#[derive(Debug)]
pub(crate) struct Ticks {
    /// The worker that runs on the kernel thread. For a fiber's kernel thread, only
    /// while it has the turn.
    worker: AtomicPtr<Worker>,
    /// The fiber's kernel thread that has, or last had, the turn in place of the
    /// worker's own: ticks are forwarded to it.
    elsewhere: AtomicPtr<KernelThread>,
    ticker: Option<Ticker>,
    interval: Duration,
    /// The clock of a worker's ticks, if it is not the real one.
    clock: Option<ScriptedClock>,
}

impl Ticks {
    /// The ticks of the calling thread, which runs as this worker.
    pub(super) fn new(
        worker: Option<&Worker>,
        interval: Duration,
        clock: Option<&ScriptedClock>,
    ) -> std::io::Result<Arc<Ticks>> {
        let mut why = None;
        let ticks = Arc::new_cyclic(|ticks: &Weak<Ticks>| {
            let word = ticks.as_ptr().expose_provenance();
            let ticker = Ticker::for_this_thread(word).inspect_err(|error| why = Some(error.kind()));
            let worker = AtomicPtr::new(address_of(worker));
            let clock = clock.cloned();
            Ticks { worker, elsewhere: AtomicPtr::default(), ticker: ticker.ok(), interval, clock }
        });
        why.map_or(Ok(ticks), |why| Err(why.into()))
    }

    /// The ticks of the calling thread, which belongs to a fiber.
    pub(crate) fn for_fiber_thread() -> std::io::Result<Arc<Ticks>> {
        Ticks::new(None, Duration::ZERO, None)
    }

    /// Attaches the worker as which this kernel thread runs, and so enables its interruption.
    /// Called by that thread.
    fn attach(&self, worker: &Worker) {
        self.worker.store(address_of(Some(worker)), Release);
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
    pub(super) unsafe fn worker(&self) -> Option<NonNull<Worker>> {
        if let Some(thread) = NonNull::new(self.elsewhere.load(Acquire)) {
            // SAFETY: kernel threads that take turns are never freed.
            if let Some(theirs) = unsafe { thread.as_ref() }.ticks() {
                self.set(theirs, Duration::ZERO, self.interval);
            }
            return None;
        }
        let worker = NonNull::new(self.worker.load(Acquire));
        if worker.is_none() {
            // It was forwarded when the turn was over.
            self.stop();
        }
        worker
    }

    /// Sets the thread to which ticks are forwarded, or ends forwarding. Only the worker's own
    /// thread may do the latter.
    fn forward_to(&self, thread: Option<&'static KernelThread>) {
        self.elsewhere
            .store(thread.map_or(std::ptr::null_mut(), |thread| std::ptr::from_ref(thread).cast_mut()), Release);
    }

    /// The time that this many ticks take.
    pub(super) fn duration_of(&self, many: u32) -> Duration {
        self.interval * many
    }

    /// Sets the timer of these ticks, or of another kernel thread's, by the clock of these.
    fn set(&self, theirs: &Ticks, first: Duration, interval: Duration) {
        match (&theirs.ticker, &self.clock) {
            (Some(ticker), None) => ticker.start(first, interval),
            (Some(ticker), Some(clock)) => ticker.start_by(clock, first, interval),
            (None, _) => (),
        }
    }

    /// The time by the clock of these ticks.
    fn now(&self) -> Instant {
        self.clock.as_ref().map_or_else(Instant::now, ScriptedClock::now)
    }

    fn stop(&self) {
        if let Some(ticker) = &self.ticker {
            ticker.stop();
        }
    }
}

impl FireTimer for Ticks {
    fn fire(&self) {
        self.set(self, Duration::ZERO, self.interval);
    }
}

fn address_of(worker: Option<&Worker>) -> *mut Worker {
    worker.map_or(std::ptr::null_mut(), |worker| std::ptr::from_ref(worker).cast_mut())
}

impl Preemption {
    /// Sets when ticks come, by the timer of the kernel thread that has the turn. The worker's own
    /// timer is stopped if that is another one.
    pub(super) fn set_ticking(&self, ticking: Ticking) {
        let Some((own, ticks)) = self.timer() else { return };
        self.ticking.set(ticking);
        let interval = self.interval(own);
        match ticking {
            Ticking::Never => ticks.stop(),
            Ticking::At(time) => own.set(ticks, time.saturating_duration_since(own.now()), interval),
            Ticking::Slowly => own.set(ticks, SLOW, SLOW),
            Ticking::On => {
                own.set(ticks, interval, interval);
                self.next_tick.set(SET_AGAIN);
            }
        }
    }

    /// Lets the next tick come after this time, which ends at `next`, and further ones once per
    /// running time.
    fn set_next_tick(&self, first: Duration, next: u64) {
        if let Some((own, ticks)) = self.timer() {
            own.set(ticks, first, self.interval(own));
            self.next_tick.set(next);
        }
    }

    /// A tick has come. Runs in a handler.
    pub(super) fn note_tick(&self) {
        self.next_tick.set(SET_AGAIN);
    }

    /// Lets the first tick come after this time, or after a running time if that is shorter, and
    /// then one after each running time.
    pub(super) fn set_ticking_after(&self, first: Duration) {
        if let Some((own, ticks)) = self.timer() {
            self.ticking.set(Ticking::On);
            let interval = self.interval(own);
            own.set(ticks, first.min(interval), interval);
        }
    }

    /// The interval of ticks: a running time, until the runtime ends.
    fn interval(&self, own: &Ticks) -> Duration {
        if self.grace.has_begun() { grace::TICK } else { own.interval }
    }

    /// The worker's own timer, and that of the kernel thread that has the turn. The former is
    /// stopped if they differ.
    fn timer(&self) -> Option<(&Ticks, &Ticks)> {
        let own = self.ticks()?;
        let theirs = self.runs_on.get().and_then(KernelThread::ticks).inspect(|_| own.stop());
        Some((own, theirs.unwrap_or(own)))
    }
}

impl Worker {
    /// The calling kernel thread takes the turn as this worker: it is the one that is interrupted.
    pub(crate) fn resume_on(&self, thread: &'static KernelThread) {
        let preemption = &self.preemption;
        preemption.runs_on.set(Some(thread));
        compiler_fence(SeqCst);
        let theirs = thread.ticks();
        if let Some(ticks) = preemption.ticks() {
            ticks.forward_to(theirs.and(Some(thread)));
        }
        if let Some(ticks) = theirs {
            ticks.attach(self);
        }
        preemption.set_ticking(preemption.ticking.get());
        if theirs.is_some() && preemption.ticking.get() != Ticking::On {
            // Another thread may have fired the timer of the worker's own thread, which has just
            // been stopped.
            self.publish_stopped_timer();
        }
    }

    /// The calling kernel thread, which is the worker's own, is about to hand over to another one.
    pub(crate) fn forward_ticks_to(&self, next: &'static KernelThread) {
        if let Some(ticks) = self.preemption.ticks() {
            ticks.forward_to(Some(next));
        }
    }

    /// Ends all ticks.
    pub(crate) fn stop_ticks(&self) {
        if let Some(ticks) = self.preemption.ticks.take() {
            // SAFETY: it is the worker's share, which is not used again.
            let ticks = unsafe { Arc::from_raw(ticks.as_ptr()) };
            drop(self.inbox().stopped_timer.take());
            // A thread that is about to fire a tick will soon be done.
            while Arc::strong_count(&ticks) > 1 {
                std::thread::yield_now();
            }
            ticks.detach();
            if let Some(slack) = self.preemption.slack.take() {
                slack.apply_to_this_thread();
            }
        }
    }

    /// Whether a preemptible fiber would keep others from running.
    fn has_waiting_fibers(&self) -> bool {
        self.ready(|ready| ready.waiting()) > 0 || self.core().offered.len() > 0 || self.outside.is_awaited()
    }

    /// The running fiber has made another one ready: starts ticks if it might keep that from
    /// running.
    #[inline(always)]
    pub(crate) fn start_ticks_if_needed(&self) {
        if self.has_ticks() && self.preemption.ticking.get() != Ticking::On {
            let runs = |me: &Fiber| me.is_preemptible.get() && me.state.get() == State::Running;
            if let Some(me) = self.running().filter(runs) {
                self.start_ticks();
                self.set_tick_for(me);
            }
        }
    }

    #[cold]
    pub(super) fn start_slow_ticks(&self) {
        self.preemption.set_ticking(Ticking::Slowly);
    }

    #[cold]
    pub(super) fn start_ticks(&self) {
        self.preemption.set_ticking(Ticking::On);
    }

    /// Sets the timer for this fiber, which is about to run, and is the [current](Worker::current)
    /// one already. With `may_stop` the timer is stopped if nothing waits.
    #[inline(always)]
    pub(crate) fn update_timer(&self, next: Fiber, may_stop: bool) {
        compiler_fence(SeqCst);
        let preemption = &self.preemption;
        if may_stop || preemption.ticking.get() != Ticking::On || self.timers.earliest() <= preemption.next_tick.get() {
            self.update_timer_slow(next);
        }
    }

    /// Sets the timer to the next deadline or the end of the running time of this fiber, which is
    /// about to run.
    fn set_tick_for(&self, next: Fiber) {
        let interval = self.preemption.ticks().map_or(Duration::MAX, |ticks| self.preemption.interval(ticks));
        let left = next.allowance.get().saturating_sub(next.spent.get());
        let left = Duration::from_nanos(self.clock.span(left.into()).as_nanos());
        let now = self.timers.nanos(self.now());
        let ahead = Duration::from_nanos(self.timers.earliest().saturating_sub(now)).max(SOONEST);
        let first = left.clamp(SOONEST.min(interval), interval).min(ahead);
        self.preemption.set_next_tick(first, now.saturating_add(first.as_nanos() as u64));
    }

    #[inline(never)]
    fn update_timer_slow(&self, next: Fiber) {
        let ticking = self.preemption.ticking.get();
        if !next.is_preemptible.get() {
            if ticking == Ticking::Never && self.preemption.with_interrupted(|queue| !queue.is_empty()) {
                self.start_slow_ticks();
            }
            return;
        }
        if self.has_waiting_fibers() {
            if ticking != Ticking::On {
                self.start_ticks();
            }
            if self.timers.earliest() <= self.preemption.next_tick.get() {
                self.set_tick_for(next);
            }
            return;
        }
        match self.timers.next() {
            Some(time) if matches!(ticking, Ticking::At(at) if at <= time) => (),
            Some(time) => self.preemption.set_ticking(Ticking::At(time)),
            None if ticking != Ticking::Never => self.preemption.set_ticking(Ticking::Never),
            None => (),
        }
        self.publish_stopped_timer();
    }

    /// Stops the timer, unless other threads have something for the worker. A thread that sends
    /// something from then on sees that, and fires the timer.
    fn publish_stopped_timer(&self) {
        if let Some(ticks) = self.preemption.ticks() {
            // SAFETY: the worker has a share of them.
            unsafe { self.inbox().stopped_timer.set(ticks) };
        }
        if self.inbox().any() || self.core().offered.len() > 0 {
            self.start_ticks();
        }
    }

    /// Says whether the worker waits because no fiber is ready.
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.preemption.asleep.set(asleep);
        compiler_fence(SeqCst);
    }

    /// Stops the timer on behalf of this worker. Runs in a handler.
    pub(super) fn stop_timer(&self) {
        self.preemption.set_ticking(Ticking::Never);
    }
}
