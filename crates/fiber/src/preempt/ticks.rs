//! When ticks come, and to which kernel thread.
//!
//! The timer is that of the worker's own kernel thread. Where preemptible fibers have [kernel threads](crate::control_block::thread) each of these has one, and the timer of the thread that has the
//! turn is the one that is set. Others know of the worker's own only, and may set that off at any time; if its thread has not the turn it passes the tick on to the
//! one that has. Should that one be just about to give it away nobody is interrupted, and the next tick is passed on.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicPtr, compiler_fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use sys::tick::{ScriptedClock, Ticker};

use super::{Preemption, grace};
use crate::control_block::thread::KernelThread;
use crate::inbox::stopped_timer::FireTimer;
use crate::record::Fiber;
use crate::worker::Worker;

/// How often it is looked whether somebody who runs and is no preemptible fiber waits for what a preemptible fiber has that was interrupted.
const SLOW: Duration = Duration::from_millis(10);

/// When the next tick comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ticking {
    Never,
    /// At this time.
    At(Instant),
    /// Now and then.
    Slowly,
    /// After each running time.
    On,
}

/// How a tick finds its worker, and others set one off. It goes with the worker, or with the last one who is about to set one off.
#[derive(Debug)]
pub(crate) struct Ticks {
    /// The worker that runs on the kernel thread. Of a preemptible fiber's kernel thread only while it has the turn.
    worker: AtomicPtr<Worker>,
    /// The preemptible fiber's kernel thread that has, or had last, the turn that is the worker's own: ticks are passed on to it.
    elsewhere: AtomicPtr<KernelThread>,
    ticker: Option<Ticker>,
    interval: Duration,
    /// Those of a worker go by this clock, if it is not the real one.
    clock: Option<ScriptedClock>,
}

impl Ticks {
    /// Those of the calling thread's, as this worker for the time being.
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

    /// Those of the calling thread's, which is a preemptible fiber's.
    pub(crate) fn for_preemptible_thread() -> std::io::Result<Arc<Ticks>> {
        Ticks::new(None, Duration::ZERO, None)
    }

    /// The worker whose turn the kernel thread has is this one from now on, and will be interrupted. For that thread itself.
    fn attach(&self, worker: &Worker) {
        self.worker.store(address_of(Some(worker)), Release);
    }

    /// The kernel thread is nobody's any more, or a preemptible fiber's that has not the turn. For that thread itself.
    pub(crate) fn detach(&self) {
        self.worker.store(std::ptr::null_mut(), Release);
        self.stop();
    }

    /// Whom to interrupt, on the kernel thread whose ticks these are, which a tick has come to. In a handler.
    ///
    /// # Safety
    /// That thread calls it.
    pub(super) unsafe fn worker(&self) -> Option<NonNull<Worker>> {
        if let Some(thread) = NonNull::new(self.elsewhere.load(Acquire)) {
            // SAFETY: kernel threads that take turns stay for ever.
            if let Some(theirs) = unsafe { thread.as_ref() }.ticks() {
                self.set(theirs, Duration::ZERO, self.interval);
            }
            return None;
        }
        let worker = NonNull::new(self.worker.load(Acquire));
        if worker.is_none() {
            // It was passed on when the turn was over.
            self.stop();
        }
        worker
    }

    /// From now on they are passed on to this thread, or not any more. The latter is for the worker's own thread itself.
    fn forward_to(&self, thread: Option<&'static KernelThread>) {
        self.elsewhere
            .store(thread.map_or(std::ptr::null_mut(), |thread| std::ptr::from_ref(thread).cast_mut()), Release);
    }

    /// How long it takes until there were so many.
    pub(super) fn duration_of(&self, many: u32) -> Duration {
        self.interval * many
    }

    /// Sets these, or those of another kernel thread, to go by the clock of these.
    fn set(&self, theirs: &Ticks, first: Duration, interval: Duration) {
        match (&theirs.ticker, &self.clock) {
            (Some(ticker), None) => ticker.start(first, interval),
            (Some(ticker), Some(clock)) => ticker.start_by(clock, first, interval),
            (None, _) => (),
        }
    }

    /// The time by the clock of these.
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
    /// It ticks so from now on: by the timer of the kernel thread that has the turn, while that of the worker's own stands still if it is another.
    pub(super) fn set_ticking(&self, ticking: Ticking) {
        let Some((own, ticks)) = self.timer() else { return };
        self.ticking.set(ticking);
        let interval = self.interval(own);
        match ticking {
            Ticking::Never => ticks.stop(),
            Ticking::At(time) => own.set(ticks, time.saturating_duration_since(own.now()), interval),
            Ticking::Slowly => own.set(ticks, SLOW, SLOW),
            Ticking::On => own.set(ticks, interval, interval),
        }
    }

    /// Ticks come after this time, if a running time is not shorter, and then after each running time.
    pub(super) fn set_ticking_after(&self, first: Duration) {
        if let Some((own, ticks)) = self.timer() {
            self.ticking.set(Ticking::On);
            let interval = self.interval(own);
            own.set(ticks, first.min(interval), interval);
        }
    }

    /// How far ticks are apart: a running time, until the runtime ends.
    fn interval(&self, own: &Ticks) -> Duration {
        if self.grace.has_begun() { grace::TICK } else { own.interval }
    }

    /// The worker's own timer, and that of the kernel thread that has the turn. The former stands still if they are two.
    fn timer(&self) -> Option<(&Ticks, &Ticks)> {
        let own = self.ticks()?;
        let theirs = self.runs_on.get().and_then(KernelThread::ticks).inspect(|_| own.stop());
        Some((own, theirs.unwrap_or(own)))
    }
}

impl Worker {
    /// The calling kernel thread has the turn, as this worker: it is the one that is interrupted.
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
            // Somebody may have set off the timer of the worker's own thread, which has just been stopped.
            self.publish_stopped_timer();
        }
    }

    /// The calling kernel thread, which is the worker's own, is about to hand over to another one.
    pub(crate) fn forward_ticks_to(&self, next: &'static KernelThread) {
        if let Some(ticks) = self.preemption.ticks() {
            ticks.forward_to(Some(next));
        }
    }

    /// No tick comes any more.
    pub(crate) fn stop_ticks(&self) {
        if let Some(ticks) = self.preemption.ticks.take() {
            // SAFETY: it is the worker's share, of which it makes no other use.
            let ticks = unsafe { Arc::from_raw(ticks.as_ptr()) };
            drop(self.inbox().stopped_timer.take());
            // Whoever sets one off at this moment has done so soon.
            while Arc::strong_count(&ticks) > 1 {
                std::thread::yield_now();
            }
            ticks.detach();
            if let Some(slack) = self.preemption.slack.take() {
                slack.apply_to_this_thread();
            }
        }
    }

    /// Whether somebody waits whom a preemptible fiber would keep from running.
    fn has_waiting_fibers(&self) -> bool {
        self.ready(|ready| ready.waiting()) > 0 || self.core().unstarted.len() > 0 || self.outside.is_awaited()
    }

    /// A preemptible fiber goes outside: ticks are to come if somebody waits.
    #[inline(always)]
    pub(crate) fn start_ticks_if_needed(&self) {
        if self.preemption.ticking.get() != Ticking::On && self.has_waiting_fibers() {
            self.start_ticks();
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

    /// This fiber is about to run, and is the [current](Worker::current) one already. `may_stop` says that the time for the timer to stand still has come, if nobody
    /// waits.
    #[inline(always)]
    pub(crate) fn update_timer(&self, next: Fiber, may_stop: bool) {
        compiler_fence(SeqCst);
        if may_stop || self.preemption.ticking.get() != Ticking::On {
            self.update_timer_slow(next);
        }
    }

    #[inline(never)]
    fn update_timer_slow(&self, next: Fiber) {
        let ticking = self.preemption.ticking.get();
        if next.preemptible().is_none() {
            if ticking == Ticking::Never && self.preemption.with_interrupted(|queue| !queue.is_empty()) {
                self.start_slow_ticks();
            }
            return;
        }
        if self.has_waiting_fibers() {
            if ticking != Ticking::On {
                self.start_ticks();
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

    /// The timer stands still, unless others have something for the worker. Who sends it something from now on sees that, and sets the timer off.
    fn publish_stopped_timer(&self) {
        if let Some(ticks) = self.preemption.ticks() {
            // SAFETY: the worker has a share of them.
            unsafe { self.inbox().stopped_timer.set(ticks) };
        }
        if self.inbox().any() || self.core().unstarted.len() > 0 {
            self.start_ticks();
        }
    }

    /// The worker waits, since nobody is ready.
    pub(crate) fn set_asleep(&self, asleep: bool) {
        self.preemption.asleep.set(asleep);
        compiler_fence(SeqCst);
    }

    /// The timer stands still, as far as this worker is concerned. In a handler.
    pub(super) fn stop_timer(&self) {
        self.preemption.set_ticking(Ticking::Never);
    }
}
