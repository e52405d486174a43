//! What a worker does when none of its fibers is ready, and what it has to do with others: kernel threads outside, and other workers.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use policy::ThreadId;
use policy::feedback::{FeedbackQueue, Level};

use crate::inbox::{Inbox, Sleep};
use crate::record::{Fiber, State};
use crate::unstarted::Searcher;
use crate::worker::Worker;

/// After so many records that were given back here, they are for all workers.
const FREED: u32 = 512;

impl Worker {
    /// What others have for it.
    #[inline(always)]
    pub(crate) fn inbox(&self) -> &Inbox {
        &self.core().inboxes[self.index()]
    }

    /// Sends a fiber, which is ready from now on, to the worker that it belongs to.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_home(&self, fiber: Fiber) {
        let home = fiber.home.get().unwrap_or(NonNull::from(self));
        // SAFETY: a worker is there for as long as there are fibers of it; others look only at what never changes, its number.
        let index = unsafe { (*home.as_ptr()).index() };
        self.core().inboxes[index].send(fiber);
    }

    /// Takes what others have sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn receive(&self) {
        self.inbox().take(|fiber: Fiber| {
            match fiber.state.get() {
                State::Unstarted => {
                    self.take_in(fiber);
                    self.replace_record();
                }
                state => {
                    debug_assert!(matches!(state, State::Blocked | State::BlockedUnwinding), "{state:?}");
                    fiber.state.set(State::Ready);
                }
            }
            self.ready(|ready| ready.enqueue(ThreadId(fiber.number.get())));
        });
    }

    /// A thread outside has used up a record that will be this worker's when its fiber has ended: it gets one back for it, if there is one. Else those outside would
    /// need more and more, while this worker had more and more that nobody needs.
    fn replace_record(&self) {
        if let Some(fiber) = self.free.get() {
            self.free.set(fiber.next.take());
            self.core().return_records(fiber);
        }
    }

    /// The worker that a fiber will start on is this one.
    pub(crate) fn take_in(&self, fiber: Fiber) {
        if fiber.is_preemptible.get() && !self.has_preemptible() {
            // Now, since who goes on with it asks first whether there are preemptible fibers. Why that cannot be it is told when it would begin.
            let _ = self.prepare_preemption();
        }
        self.ready(|ready| ready.add(ThreadId(fiber.number.get())));
        fiber.allowance.set(self.accounting.whole);
    }

    /// A new fiber for whichever worker comes first.
    #[inline(never)]
    pub(crate) fn offer_unstarted(&self, fiber: Fiber) {
        let core = self.core();
        if core.unstarted.push(fiber) {
            core.wake_idle_worker();
        }
    }

    /// Who runs next, if that is drawn, or where any worker may take those that have not started. These are at the highest level; with others at that level they take
    /// turns.
    #[inline(never)]
    pub(crate) fn take_fuzzed_or_unstarted(&self) -> Option<Fiber> {
        if let Some(fuzzer) = &self.fuzzer {
            return self.take_ready(|ready| fuzzer.take(ready));
        }
        let core = self.core();
        if core.unstarted.len() > 0 {
            let is_highest = self.ready(|ready| ready.highest()) == Some(Level(0));
            if (!is_highest || self.toggle_unstarted_turn())
                && let Some(fiber) = core.unstarted.pop()
            {
                self.take_in(fiber);
                return Some(fiber);
            }
        }
        self.take_ready(FeedbackQueue::take)
    }

    /// Fibers may always end here and always begin elsewhere: now and then all records of nobody are for any worker.
    pub(crate) fn share_free(&self) {
        let freed = self.freed.get() + 1;
        self.freed.set(freed % FREED);
        if freed == FREED
            && let Some(first) = self.free.take()
        {
            self.core().return_records(first);
        }
    }

    /// Whether one that has not started goes first this time.
    fn toggle_unstarted_turn(&self) -> bool {
        self.unstarted_turn.set(!self.unstarted_turn.get());
        self.unstarted_turn.get()
    }

    /// Nobody is ready: waits until somebody may be.
    #[cold]
    #[inline(never)]
    pub(crate) fn idle(&self) {
        if self.expire() {
            return;
        }
        if self.inbox().any() {
            return self.receive();
        }
        let core = self.core();
        if self.take_cancel_request() && crate::deadlock::cancel_all(self) {
            return;
        }
        if self.index() == 0 && core.stuck.swap(false, SeqCst) {
            return crate::deadlock::handle_deadlock(self);
        }
        let until = self.timers.next();
        if !self.is_alone() {
            self.idle_among_workers(until);
        } else if self.is_stuck(until) {
            crate::deadlock::handle_deadlock(self);
        } else {
            self.clock.sleep(until, |until| self.sleep(until, || self.is_stuck(until)));
        }
        self.restart();
    }

    /// Whether it is to call off what its fibers wait for, since it was last asked.
    fn take_cancel_request(&self) -> bool {
        let times = self.core().cancellations();
        self.cancellations.replace(times) != times
    }

    /// Whether a fiber that has started is one of this worker's.
    pub(crate) fn is_home_of(&self, fiber: Fiber) -> bool {
        fiber.home.get() == Some(NonNull::from(self))
    }

    /// Whether nothing will ever come of a sleep, as far as this worker knows.
    fn is_stuck(&self, until: Option<Instant>) -> bool {
        until.is_none() && !self.outside.is_awaited() && !self.core().is_expecting()
    }

    /// As a [searcher](crate::unstarted) for a time, if the workers have none, and then until there is something to do.
    fn idle_among_workers(&self, until: Option<Instant>) {
        let unstarted = &self.core().unstarted;
        loop {
            if let Some(mut searcher) = unstarted.try_search() {
                let found = self.search(&mut searcher, until);
                drop(searcher);
                if found {
                    // Another one is to look out instead.
                    if unstarted.needs_worker() {
                        self.core().wake_idle_worker();
                    }
                    return;
                }
            }
            self.sleep(until, || unstarted.needs_worker() || self.declare_stuck(until));
            // Fibers of its own may have become ready at what it slept at.
            if self.ready(|ready| ready.waiting()) > 0 || !unstarted.needs_worker() || unstarted.is_urgent() {
                return;
            }
        }
    }

    /// True when there is something to do.
    fn search(&self, searcher: &mut Searcher<'_>, until: Option<Instant>) -> bool {
        while !searcher.is_done() {
            let end = Instant::now() + searcher.nap();
            let first = until.is_some_and(|until| until <= end);
            if first || self.outside.is_awaited() {
                self.sleep(Some(if first { until.unwrap_or(end) } else { end }), || false);
            } else if self.inbox().prepare_to_sleep(Sleep::Timed, || false) {
                self.inbox().sleep(Sleep::Timed, Some(searcher.nap()));
            }
            let passed = until.is_some_and(|until| until <= Instant::now());
            if passed || self.inbox().any() || self.ready(|ready| ready.waiting()) > 0 || searcher.should_help() {
                return true;
            }
        }
        false
    }

    /// Whether no worker has anything to do, nor ever will. Asked when this one is asleep for the others; the first worker is told.
    fn declare_stuck(&self, until: Option<Instant>) -> bool {
        let core = self.core();
        let all =
            self.is_stuck(until) && core.unstarted.len() == 0 && core.inboxes.iter().all(Inbox::is_asleep_for_good);
        if all {
            core.stuck.store(true, SeqCst);
            if self.index() != 0 {
                core.inboxes[0].wake_if_asleep();
            }
        }
        all && self.index() == 0
    }

    /// Whether it is so indeed, as the first worker asks, which is awake itself and has nobody who is ready; and for how long it asks [nobody comes](Core::with_outside_locked).
    ///
    /// What a worker has [seen](Worker::declare_stuck) may be over: a thread outside may have brought a fiber since, and one of those at which it looked first may have been
    /// awakened by one that lay down before it was looked at. So the others must all be asleep, and none may have lain down in the meantime. Then nobody was awake to wake any of them
    /// after it was looked at: the first who did so would have been awake after that, and asleep when it was looked at itself. They are all asleep
    /// at the end, and stay so, as only fibers wake them that are brought or run.
    pub(crate) fn are_all_others_asleep(&self) -> bool {
        let core = self.core();
        let rested = core.rest_count();
        // Whoever was expected has brought what it brings before it is so no more, so that is asked first.
        self.is_stuck(self.timers.next())
            && core.inboxes.iter().skip(1).all(Inbox::is_asleep_for_good)
            && core.unstarted.len() == 0
            && !self.inbox().any()
            && core.rest_count() == rested
    }

    /// Blocks the kernel thread until there is inbox, or something at its descriptors, or to this time; not at all if there is a reason to be `awake`, which is asked when
    /// others know already that this worker sleeps.
    fn sleep(&self, until: Option<Instant>, awake: impl FnOnce() -> bool) {
        let inbox = self.inbox();
        let how = if until.is_none() && !self.outside.is_awaited() { Sleep::ForGood } else { Sleep::AtDescriptors };
        if how == Sleep::AtDescriptors
            && let Ok(reactor) = self.outside.reactor()
        {
            inbox.set_eventcount(reactor.eventcount());
        }
        self.set_asleep(true);
        if how == Sleep::ForGood {
            self.core().count_rest();
        }
        if inbox.prepare_to_sleep(how, awake) {
            match how {
                Sleep::AtDescriptors => self.outside.sleep(self, until, || !inbox.is_sleeping(how)),
                _ => inbox.sleep(how, None),
            }
            inbox.stop_sleeping(how);
        }
        self.set_asleep(false);
    }
}
