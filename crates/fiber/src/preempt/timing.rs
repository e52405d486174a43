//! When ticks come.
//!
//! # Events from outside
//! A fiber that computes keeps its worker from looking for them. So if a tick finds such a fiber,
//! and others wait for events, the worker asks to be [watched](crate::watcher): the next event
//! requests a tick. That costs two switches of kernel threads and a tick, so it is not done where
//! fibers run for short times and the worker soon looks by itself. As long as it is not watched,
//! ticks check for fibers that compute, first after [`SOONEST`], and then at intervals that double
//! up to a running time.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::compiler_fence;
use std::time::Duration;

use policy::Span;

use super::grace;
use super::state::{Preemption, SET_AGAIN, SOONEST, Ticking};
use super::ticks::{Ticks, address_of};
use crate::control_block::thread::KernelThread;
use crate::record::{Fiber, State};
use crate::worker::Worker;

/// The interval at which the worker checks whether a running fiber that is not preemptible waits
/// for something that an interrupted fiber holds.
pub(super) const SLOW: Duration = Duration::from_millis(10);

/// A fiber computes if its turn has taken so long.
pub(super) const LONG: Span = Span::from_micros(25);

impl Preemption {
    /// Sets when ticks come: the first one after this time, and then one per running time.
    pub(super) fn set_ticking(&self, ticking: Ticking, first: Duration) {
        self.tick_at.set(u64::MAX);
        self.next_tick.set(SET_AGAIN);
        self.set_timer(ticking, first);
    }

    /// Sets the timer of the kernel thread that has the turn.
    fn set_timer(&self, ticking: Ticking, first: Duration) {
        let Some((own, ticks)) = self.timer() else { return };
        self.ticking.set(ticking);
        let interval = self.interval(own);
        match ticking {
            Ticking::Never => ticks.stop(),
            Ticking::AtDeadline if first < Duration::MAX => own.set(ticks, first, interval),
            Ticking::Slowly => own.set(ticks, SLOW, SLOW),
            Ticking::On | Ticking::AtDeadline => own.set(ticks, first.min(interval), interval),
        }
    }

    /// A tick has come. Runs in a handler.
    pub(super) fn note_tick(&self) {
        self.tick_at.set(u64::MAX);
        self.next_tick.set(SET_AGAIN);
        if let Some(own) = self.ticks() {
            let apart = if self.grace.get().is_some() { grace::TICK } else { SOONEST.min(own.interval) };
            own.earliest.store(own.now() + apart.as_nanos() as u64, Relaxed);
        }
    }

    /// The interval of ticks: a running time, until the runtime ends.
    fn interval(&self, own: &Ticks) -> Duration {
        if self.grace.get().is_some() { grace::TICK } else { own.interval }
    }

    /// The worker's own timer, and that of the kernel thread that has the turn. The former is
    /// stopped if they differ.
    fn timer(&self) -> Option<(&Ticks, &Ticks)> {
        let own = self.ticks()?;
        let theirs = self.threads.runs_on.get().and_then(KernelThread::ticks).inspect(|_| own.stop());
        Some((own, theirs.unwrap_or(own)))
    }
}

impl Worker {
    /// The calling kernel thread takes the turn as this worker: it is the one that is interrupted.
    pub(crate) fn resume_on(&self, thread: &'static KernelThread) {
        let preemption = &self.preemption;
        preemption.threads.runs_on.set(Some(thread));
        compiler_fence(SeqCst);
        let theirs = thread.ticks();
        if let Some(ticks) = preemption.ticks() {
            ticks.forward_to(theirs);
        }
        if let Some(ticks) = theirs {
            ticks.worker.store(address_of(Some(self.pointer())), Release);
        }
        let first = match preemption.tick_at.get() {
            u64::MAX => Duration::MAX,
            time => Duration::from_nanos(time.saturating_sub(self.timers.nanos(self.now()))),
        };
        preemption.set_timer(preemption.ticking.get(), first);
        // Another thread may have fired a timer that has just been stopped.
        self.publish_timer();
    }

    /// The calling kernel thread, which is the worker's own, is about to hand over to another one.
    pub(crate) fn forward_ticks_to(&self, next: &'static KernelThread) {
        if let Some(ticks) = self.preemption.ticks() {
            ticks.forward_to(next.ticks());
        }
    }

    /// Ends all ticks.
    pub(crate) fn stop_ticks(&self) {
        if let Some(ticks) = self.preemption.ticks.take() {
            self.inbox().set_takes_interrupted(false);
            // SAFETY: it is the worker's share, which is not used again.
            let ticks = unsafe { Arc::from_raw(ticks.as_ptr()) };
            drop(self.inbox().tick_request.take());
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

    /// The running fiber has made another one ready: starts ticks if it might keep that from
    /// running.
    #[inline(always)]
    pub(crate) fn start_ticks_if_needed(&self) {
        if self.has_ticks() && self.preemption.ticking.get() != Ticking::On {
            let runs = |me: &Fiber| me.is_preemptible.get() && me.state.get() == State::Running;
            if let Some(me) = self.running().filter(runs) {
                self.set_tick_for(me);
            }
        }
    }

    #[cold]
    pub(super) fn start_ticks(&self) {
        self.preemption.set_ticking(Ticking::On, Duration::MAX);
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

    #[inline(never)]
    fn update_timer_slow(&self, next: Fiber) {
        let preemption = &self.preemption;
        if next.is_preemptible.get() {
            self.set_tick_for(next);
        } else if preemption.ticking.get() == Ticking::Never && !preemption.interrupted.is_empty() {
            preemption.set_ticking(Ticking::Slowly, SLOW);
        }
    }

    /// Sets the timer for this preemptible fiber to the next deadline, the next check for events
    /// from outside, or the end of its running time, if others wait for their turns.
    fn set_tick_for(&self, next: Fiber) {
        let preemption = &self.preemption;
        let Some(ticks) = preemption.ticks() else { return };
        let interval = preemption.interval(ticks);
        let shares = self.ready(|ready| ready.waiting()) > 0 || self.core().offered.len() > 0;
        let check = self.time_to_check_outside(interval);
        let deadline = self.timers.earliest();
        let ticking = match deadline {
            _ if shares || check.is_some() => Ticking::On,
            u64::MAX => Ticking::Never,
            _ => Ticking::AtDeadline,
        };
        let mut is_set = preemption.ticking.get() == ticking;
        if ticking == Ticking::On || !is_set || preemption.tick_at.get() > deadline {
            let now = self.timers.nanos(self.now());
            let mut first = Duration::from_nanos(deadline.saturating_sub(now)).min(check.unwrap_or(Duration::MAX));
            if shares {
                let left = next.allowance.get().saturating_sub(next.spent.get());
                first = first.min(Duration::from_nanos(self.clock.span(left.into()).as_nanos())).min(interval);
            }
            let first = first.max(SOONEST.min(interval));
            let time = now.saturating_add(u64::try_from(first.as_nanos()).unwrap_or(u64::MAX));
            is_set &= preemption.tick_at.get() <= time;
            if !is_set {
                preemption.tick_at.set(time);
            }
            // Before the timer is set: a tick changes it.
            preemption.next_tick.set(preemption.tick_at.get().min(deadline.saturating_sub(1)));
            if !is_set {
                preemption.set_timer(ticking, first);
            }
        }
        if !is_set || !self.inbox().tick_request.is_published() {
            self.publish_timer();
        }
    }

    /// When a tick must check for events from outside. `None` if no fiber waits for one, or the
    /// next event brings a tick.
    fn time_to_check_outside(&self, interval: Duration) -> Option<Duration> {
        let reactor = self.awaited_reactor()?;
        let preemption = &self.preemption;
        if preemption.computes.take() {
            reactor.ask_to_be_watched();
            preemption.check.set(SOONEST);
        }
        if reactor.is_watched() {
            return None;
        }
        let check = preemption.check.get();
        preemption.check.set((check * 2).min(interval));
        Some(check)
    }

    /// A fiber waits for an event from outside, and none did before.
    pub(crate) fn note_wait_outside(&self) {
        self.preemption.next_tick.set(SET_AGAIN);
    }

    /// The timer was set or stopped: other threads that have something for the worker may fire it.
    /// It ticks soon if they have already.
    fn publish_timer(&self) {
        let preemption = &self.preemption;
        let is_on = preemption.ticking.get() == Ticking::On;
        if let Some(ticks) = preemption.ticks() {
            // SAFETY: the worker has a share of them.
            unsafe { self.inbox().tick_request.publish(ticks, is_on) };
        }
        if self.inbox().any() || !is_on && self.core().offered.len() > 0 {
            preemption.set_ticking(Ticking::On, SOONEST);
            preemption.tick_at.set(self.timers.nanos(self.now() + SOONEST));
        }
    }
}
