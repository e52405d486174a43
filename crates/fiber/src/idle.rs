//! A worker without ready fibers: how it polls, sleeps and exchanges fibers with other
//! workers and threads outside.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use policy::ThreadId;
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

    /// Takes what other threads have sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn receive(&self) {
        self.inbox().take(|fiber: Fiber| {
            match fiber.state.get() {
                State::Unstarted => {
                    self.take_in(fiber);
                    // The record will be this worker's. If the threads outside got none in return,
                    // they would need ever more, and this worker would collect them.
                    if let Some(free) = self.free.get() {
                        self.free.set(free.next.take());
                        self.core().return_records(free);
                    }
                }
                State::Ready => self.take_in_started(fiber),
                state => {
                    debug_assert!(matches!(state, State::Blocked | State::BlockedUnwinding), "{state:?}");
                    fiber.state.set(State::Ready);
                    if let Some(waker) = fiber.thread().attraction.take()
                        && self.may_give_away(fiber)
                    {
                        self.give_away(fiber);
                        return self.core().inboxes[waker].send(fiber);
                    }
                }
            }
            self.ready(|ready| ready.enqueue(fiber.id()));
        });
    }

    /// Whether a ready fiber of this worker may continue on another one.
    fn may_give_away(&self, fiber: Fiber) -> bool {
        // The stack of the current fiber may still be in use.
        self.running() != Some(fiber) && fiber.is_movable()
    }

    /// Gives away a ready fiber, which is not in the queue.
    fn give_away(&self, fiber: Fiber) {
        let thread = fiber.thread();
        thread.share.set(self.ready(|ready| ready.release(fiber.id())));
        fiber.home.set(None);
    }

    /// Makes this worker the home of a ready fiber that another worker has given away.
    fn take_in_started(&self, fiber: Fiber) {
        if !self.preemption.has_blocks.get() {
            // The runtime has made blocks before, so it can.
            let _ = self.prepare_blocks();
        }
        if fiber.is_preemptible.get() {
            // Without ticks the fiber is interrupted no more.
            let _ = self.prepare_ticks();
        }
        let thread = fiber.thread();
        self.ready(|ready| ready.admit(fiber.id(), thread.share.get()));
        fiber.home.set(Some(self.pointer()));
        thread.take_turn(self.pointer());
    }

    /// Gives ready fibers to workers that have requested some: half of them, or all but the `kept`
    /// one that is next.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_to_others(&self, kept: usize) {
        const MOST: usize = 32;
        let core = self.core();
        let many = self.ready(|ready| ready.waiting()).saturating_sub(kept);
        if many == 0 || !core.offered.take_request() {
            return;
        }
        let (mut gives, mut wakes) = (false, false);
        for _ in 0..many.div_ceil(2).min(MOST) {
            let may_give = |thread: ThreadId| {
                let fiber = core.records.get(thread.0);
                fiber.state.get() == State::Ready && self.may_give_away(fiber)
            };
            let Some(fiber) = self.take_ready(|ready| ready.take_if(may_give)) else { break };
            self.give_away(fiber);
            wakes |= core.offered.push(fiber);
            gives = true;
        }
        if !gives {
            // None of them may move, but others may, later.
            let _ = core.offered.request();
        }
        if wakes {
            core.wake_idle_worker();
        }
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
                is_first_to_check || offered.needs_worker()
            });
            if is_first_to_check {
                return crate::deadlock::handle_deadlock(self);
            }
            // Its own fibers may have become ready while it slept.
            if self.ready(|ready| ready.waiting()) > 0 || !offered.needs_worker() || offered.is_urgent() {
                return;
            }
        }
    }

    /// Returns true when there is something to do.
    fn search(&self, searcher: &mut Searcher<'_>, until: Option<Instant>) -> bool {
        while !searcher.is_done() {
            let end = Instant::now() + searcher.nap();
            let first = until.is_some_and(|until| until <= end);
            if first || self.awaited_reactor().is_some() {
                self.sleep(Some(if first { until.unwrap_or(end) } else { end }), || false);
            } else {
                let nap = || self.inbox().block(Sleep::Timed, Some(searcher.nap()));
                self.inbox().sleep(Sleep::Timed, || false, nap);
            }
            self.take_stuck_mail();
            let passed = until.is_some_and(|until| until <= Instant::now());
            if passed || self.inbox().any() || self.ready(|ready| ready.waiting()) > 0 || searcher.should_help() {
                return true;
            }
            self.request_fibers();
        }
        false
    }

    /// Requests ready fibers of other workers. Fibers that reach no safepoint keep these from the
    /// request until a tick.
    fn request_fibers(&self) {
        let core = self.core();
        if core.offered.len() == 0 && core.offered.request() {
            let others = core.inboxes.iter().enumerate().filter(|(index, _)| *index != self.index);
            others.for_each(|(_, inbox)| _ = inbox.tick_request.fire());
        }
    }

    /// Takes fibers that are on their way to workers that do not look at their inboxes: the fibers
    /// that run there reach no safepoint.
    fn take_stuck_mail(&self) {
        let core = self.core();
        for (index, inbox) in core.inboxes.iter().enumerate().filter(|(index, _)| *index != self.index) {
            inbox.steal(|fiber: Fiber| {
                if fiber.state.get() == State::Ready {
                    self.take_in_started(fiber);
                    self.ready(|ready| ready.enqueue(fiber.id()));
                } else {
                    core.inboxes[index].send(fiber);
                }
            });
        }
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
            Some(Ok(reactor)) => reactor.sleep(until, |fiber| self.wake(fiber, Woken::Called)),
            _ => inbox.block(how, until.map(|until| until.saturating_duration_since(Instant::now()))),
        });
    }
}
