//! A worker without ready fibers: how it polls, sleeps, and takes unstarted fibers.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use policy::feedback::{FeedbackQueue, Level};

use crate::inbox::{Inbox, Sleep};
use crate::offered::Searcher;
use crate::record::{Fiber, State};
use crate::waitable::Woken;
use crate::worker::Worker;

/// After this many records were freed here, they are shared with all workers.
const FREED: u32 = 512;

impl Worker {
    #[inline(always)]
    pub(crate) fn inbox(&self) -> &Inbox {
        &self.core().inboxes[self.index]
    }

    /// Makes this worker the one on which a fiber will start.
    pub(crate) fn take_in(&self, fiber: Fiber) {
        self.ready(|ready| ready.add(fiber.id()));
        fiber.allowance.set(self.accounting.whole);
    }

    /// Offers a new fiber to all workers.
    #[inline(never)]
    pub(crate) fn offer_unstarted(&self, fiber: Fiber) {
        let core = self.core();
        if core.offered.push(fiber) {
            core.wake_idle_worker();
        }
    }

    /// Takes the next fiber in a deterministic runtime, or if any worker may take offered fibers.
    /// These count as at the highest level, and alternate with this worker's fibers at that level.
    #[inline(never)]
    pub(crate) fn take_fuzzed_or_offered(&self) -> Option<Fiber> {
        if let Some(fuzzer) = &self.fuzzer {
            return self.take_ready(|ready| fuzzer.take(ready));
        }
        let core = self.core();
        if core.offered.len() > 0 {
            let is_highest = self.ready(|ready| ready.highest()) == Some(Level(0));
            if (!is_highest || !self.offered_turn.replace(!self.offered_turn.get()))
                && let Some(fiber) = core.offered.pop()
            {
                self.take_in_offered(fiber);
                return Some(fiber);
            }
        }
        self.take_ready(FeedbackQueue::take)
    }

    /// Makes this worker the home of a fiber that any worker may take.
    pub(crate) fn take_in_offered(&self, fiber: Fiber) {
        if fiber.state.get() == State::Unstarted { self.take_in(fiber) } else { self.take_in_started(fiber) }
    }

    /// Now and then shares all free records with other workers: fibers might always end here and
    /// always start elsewhere.
    pub(crate) fn share_free(&self) {
        let freed = self.freed.get() + 1;
        self.freed.set(freed % FREED);
        if freed == FREED
            && let Some(first) = self.free.take()
        {
            self.core().return_records(first);
        }
    }

    /// No fiber is ready, and this one waits: leaves its stack, so that it can continue on another
    /// worker, and waits on the scheduler's until a fiber is ready. Returns when it continues.
    #[cold]
    #[inline(never)]
    pub(crate) fn change_to_scheduler(&self, me: Fiber) {
        match self.scheduler_context() {
            Ok((to, block)) => {
                self.current.set(None);
                // SAFETY: the scheduler's stack is unused, and the block is its.
                unsafe { self.switch_to_control_block(me.context.as_ptr(), to, block) }
            }
            // Without a stack for the scheduler it waits on its own.
            Err(_) => self.change(me, self.next()),
        }
    }

    /// No fiber is ready: waits until one may be.
    #[cold]
    #[inline(never)]
    pub(crate) fn idle(&self) {
        if self.expire() {
            return;
        }
        if self.inbox().any() {
            return self.receive();
        }
        // Whether all waits of this worker's fibers must be cancelled.
        let cancellations = self.core().cancellations.load(SeqCst);
        if self.cancellations.replace(cancellations) != cancellations && crate::deadlock::cancel_all(self) {
            return;
        }
        let until = self.timers.next();
        if !self.is_alone {
            self.idle_among_workers(until);
        } else if self.is_stuck(until) {
            crate::deadlock::handle_deadlock(self);
        } else if let (Some(clock), Some(until)) = (self.clock.scripted(), until) {
            clock.advance_to(until);
        } else {
            self.sleep(until, || self.is_stuck(until));
        }
        self.restart();
    }

    pub(crate) fn is_home_of(&self, fiber: Fiber) -> bool {
        fiber.home.get() == Some(self.pointer())
    }

    /// Whether nothing can end a sleep, as far as this worker knows.
    fn is_stuck(&self, until: Option<Instant>) -> bool {
        until.is_none()
            && self.awaited_reactor().is_none()
            && !self.core().is_expecting()
            && (self.core().config.closed || self.core().may_have_cycle.load(SeqCst))
    }

    /// Acts as a [searcher](crate::offered) for a time, if there is none, and then waits until
    /// there is something to do.
    fn idle_among_workers(&self, until: Option<Instant>) {
        let offered = &self.core().offered;
        loop {
            let has_ticks = self.core().has_ticks.load(SeqCst);
            self.prepare_to_take_interrupted();
            if let Some(mut searcher) = offered.try_search() {
                let found = self.search(&mut searcher, until);
                drop(searcher);
                if found {
                    // Another worker should search instead.
                    if offered.needs_worker() {
                        self.core().wake_idle_worker();
                    }
                    return;
                }
            }
            let mut is_first_to_check = false;
            self.sleep(until, || {
                is_first_to_check = self.are_all_asleep(until);
                let must_prepare = has_ticks != self.core().has_ticks.load(SeqCst);
                // A search that has found something may have ended before it requested fibers.
                let _ = offered.request();
                is_first_to_check || offered.needs_worker() || must_prepare
            });
            let has_ready = self.ready(|ready| ready.waiting()) > 0;
            if is_first_to_check && !has_ready {
                return crate::deadlock::handle_deadlock(self);
            }
            // Its own fibers may have become ready while it slept.
            if has_ready || !offered.needs_worker() || offered.is_urgent() {
                return;
            }
        }
    }

    /// Returns true when there is something to do.
    fn search(&self, searcher: &mut Searcher<'_>, until: Option<Instant>) -> bool {
        while !searcher.is_done() {
            self.prepare_to_take_interrupted();
            let end = Instant::now() + searcher.nap();
            let first = until.is_some_and(|until| until <= end);
            if first || self.awaited_reactor().is_some() {
                self.sleep(Some(if first { until.unwrap_or(end) } else { end }), || false);
            } else {
                let nap = || self.inbox().block(Sleep::Timed, Some(searcher.nap()));
                self.inbox().sleep(Sleep::Timed, || false, nap);
                self.receive_any();
            }
            self.take_stuck_mail();
            let passed = until.is_some_and(|until| until <= Instant::now());
            if passed || self.ready(|ready| ready.waiting()) > 0 || searcher.should_help() {
                return true;
            }
            self.request_fibers(searcher.has_seen_nothing());
        }
        false
    }

    /// Whether this is the first worker, and none has anything to do, nor ever will, as far as
    /// this one knows. Another worker wakes the first one, which will ask then. Called when other
    /// threads already see this worker as asleep.
    fn are_all_asleep(&self, until: Option<Instant>) -> bool {
        let core = self.core();
        let all = self.is_stuck(until) && core.offered.len() == 0 && core.inboxes.iter().all(Inbox::is_asleep_for_good);
        if all && self.index != 0 {
            core.inboxes[0].wake_if_asleep();
        }
        all && self.index == 0
    }

    /// Whether all workers are really stuck. The first worker asks, which is awake itself and has
    /// no ready fiber, and the answer holds as long as it [keeps threads outside from adding
    /// fibers](crate::shared::Core::with_outside_locked).
    ///
    /// The state that a worker has [seen](Worker::are_all_asleep) may be out of date: a thread
    /// outside may have added a fiber since, and a worker that was checked first may have been
    /// woken by one that went to sleep before it was checked. So all others must be asleep, and
    /// none may have gone to sleep in the meantime. Then no worker was awake to wake any of them
    /// after it was checked: the first one to do so would have been awake after that, and asleep
    /// when it was checked itself. They are all asleep at the end, and stay so, because only fibers
    /// that are added or run wake them.
    pub(crate) fn are_all_others_asleep(&self) -> bool {
        let core = self.core();
        let rested = core.rests.load(SeqCst);
        // A thread that was expected adds its fiber before it is no longer expected, so that is
        // checked first.
        self.is_stuck(self.timers.next())
            && core.inboxes.iter().skip(1).all(Inbox::is_asleep_for_good)
            && core.offered.len() == 0
            && !self.inbox().any()
            && core.rests.load(SeqCst) == rested
    }

    /// Blocks the kernel thread until something is in the inbox or happens at its descriptors, or
    /// until this time. Does not block if `awake` returns true, which is called when other threads
    /// already see this worker as asleep.
    fn sleep(&self, until: Option<Instant>, awake: impl FnOnce() -> bool) {
        let inbox = self.inbox();
        let reactor = (until.is_some() || self.awaited_reactor().is_some()).then(|| self.reactor());
        let how = match reactor {
            None => Sleep::ForGood,
            Some(Ok(_)) => Sleep::AtDescriptors,
            // There are no descriptors left, so no fiber waits for one either.
            Some(Err(_)) => Sleep::Timed,
        };
        if how == Sleep::ForGood {
            self.core().rests.fetch_add(1, SeqCst);
        }
        inbox.sleep(how, awake, || match reactor {
            Some(Ok(reactor)) => reactor.sleep(until),
            _ => inbox.block(how, until.map(|until| until.saturating_duration_since(Instant::now()))),
        });
        self.receive_any();
        if let Some(Ok(reactor)) = reactor {
            reactor.wake_ready(|fiber| self.wake(fiber, Woken::Called));
        }
    }

    /// Takes what other threads have sent while this worker slept. Before all else: there may be
    /// [interrupted fibers](crate::moving).
    fn receive_any(&self) {
        if self.inbox().any() {
            self.receive();
        }
    }
}
