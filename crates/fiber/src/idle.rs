//! What a worker does when none of its fibers is ready, and what it has to do with others: kernel threads outside, and other workers.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use policy::ThreadId;
use policy::feedback::{Feedback, Level};

use crate::fresh::Lookout;
use crate::mail::{Mail, Sleep};
use crate::record::{Fiber, State};
use crate::worker::Worker;

/// After so many records that were given back here, they are for all workers.
const FREED: u32 = 512;

impl Worker {
    /// What others have for it.
    #[inline(always)]
    pub(crate) fn mail(&self) -> &Mail {
        &self.core().mails[self.index()]
    }

    /// Sends a fiber, which is ready from now on, to the worker that it belongs to.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_home(&self, fiber: Fiber) {
        let home = fiber.home.get().unwrap_or(NonNull::from(self));
        // SAFETY: a worker is there for as long as there are fibers of it; others look only at what never changes, its number.
        let index = unsafe { (*home.as_ptr()).index() };
        self.core().mails[index].send(fiber);
    }

    /// Takes what others have sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn receive(&self) {
        self.mail().take(|fiber: Fiber| {
            match fiber.state.get() {
                State::Unstarted => {
                    self.take_in(fiber);
                    self.make_up_for_one();
                }
                state => {
                    debug_assert!(matches!(state, State::Blocked | State::BlockedUnwinding), "{state:?}");
                    fiber.state.set(State::Ready);
                }
            }
            self.ready(|ready| ready.queue(ThreadId(fiber.number.get())));
        });
    }

    /// A thread outside has used up a record that will be this worker's when its fiber has ended: it gets one back for it, if there is one. Else those outside would
    /// need more and more, while this worker had more and more that nobody needs.
    fn make_up_for_one(&self) {
        if let Some(fiber) = self.free.get() {
            self.free.set(fiber.next.take());
            self.core().keep(fiber);
        }
    }

    /// The worker that a fiber will start on is this one.
    pub(crate) fn take_in(&self, fiber: Fiber) {
        if fiber.is_preemptible.get() && !self.has_guests() {
            // Now, since who goes on with it asks first whether there are guests. Why that cannot be it is told when it would begin.
            let _ = self.prepares_for_guests();
        }
        self.ready(|ready| ready.enter(ThreadId(fiber.number.get())));
        fiber.allowance.set(self.meter.whole);
    }

    /// A new fiber for whichever worker comes first.
    #[inline(never)]
    pub(crate) fn put_up(&self, fiber: Fiber) {
        let core = self.core();
        if core.fresh.push(fiber) {
            core.nudge_one();
        }
    }

    /// Who runs next, if that is drawn, or where any worker may take those that have not started. These are at the highest level; with others at that level they take
    /// turns.
    #[inline(never)]
    pub(crate) fn take_specially(&self) -> Option<Fiber> {
        if let Some(chance) = &self.chance {
            return self.take_ready(|ready| chance.take(ready));
        }
        let core = self.core();
        if core.fresh.many() > 0 {
            let is_highest = self.ready(|ready| ready.highest()) == Some(Level(0));
            if (!is_highest || self.alternates())
                && let Some(fiber) = core.fresh.pop()
            {
                self.take_in(fiber);
                return Some(fiber);
            }
        }
        self.take_ready(Feedback::take)
    }

    /// Fibers may always end here and always begin elsewhere: now and then all records of nobody are for any worker.
    pub(crate) fn share_free(&self) {
        let freed = self.freed.get() + 1;
        self.freed.set(freed % FREED);
        if freed == FREED
            && let Some(first) = self.free.take()
        {
            self.core().keep(first);
        }
    }

    /// Whether one that has not started goes first this time.
    fn alternates(&self) -> bool {
        self.alternates.set(!self.alternates.get());
        self.alternates.get()
    }

    /// Nobody is ready: waits until somebody may be.
    #[cold]
    #[inline(never)]
    pub(crate) fn idle(&self) {
        if self.expire() {
            return;
        }
        if self.mail().any() {
            return self.receive();
        }
        let core = self.core();
        if self.is_called_off() && crate::deadlock::tell_all(self) {
            return;
        }
        if self.index() == 0 && core.stuck.swap(false, SeqCst) {
            return crate::deadlock::nobody_can_go_on(self);
        }
        let until = self.timers.next();
        if !self.is_alone() {
            self.idle_among_others(until);
        } else if self.waits_in_vain(until) {
            crate::deadlock::nobody_can_go_on(self);
        } else {
            self.clock.sleep(until, |until| self.sleep(until, || self.waits_in_vain(until)));
        }
        self.restart();
    }

    /// Whether it is to call off what its fibers wait for, since it was last asked.
    fn is_called_off(&self) -> bool {
        let times = self.core().called_off();
        self.called_off.replace(times) != times
    }

    /// Whether a fiber that has started is one of this worker's.
    pub(crate) fn is_home_of(&self, fiber: Fiber) -> bool {
        fiber.home.get() == Some(NonNull::from(self))
    }

    /// Whether nothing will ever come of a sleep, as far as this worker knows.
    fn waits_in_vain(&self, until: Option<Instant>) -> bool {
        until.is_none() && !self.outside.is_awaited() && !self.core().expects()
    }

    /// As a [lookout](crate::fresh) for a time, if the workers have none, and then until there is something to do.
    fn idle_among_others(&self, until: Option<Instant>) {
        let fresh = &self.core().fresh;
        loop {
            if let Some(mut lookout) = fresh.watch() {
                let found = self.look_out(&mut lookout, until);
                drop(lookout);
                if found {
                    // Another one is to look out instead.
                    if fresh.needs_one() {
                        self.core().nudge_one();
                    }
                    return;
                }
            }
            self.sleep(until, || fresh.needs_one() || self.all_wait_in_vain(until));
            // Fibers of its own may have become ready at what it slept at.
            if self.ready(|ready| ready.waiting()) > 0 || !fresh.needs_one() || fresh.is_urgent() {
                return;
            }
        }
    }

    /// True when there is something to do.
    fn look_out(&self, lookout: &mut Lookout<'_>, until: Option<Instant>) -> bool {
        while !lookout.is_tired() {
            let end = Instant::now() + lookout.nap();
            let first = until.is_some_and(|until| until <= end);
            if first || self.outside.is_awaited() {
                self.sleep(Some(if first { until.unwrap_or(end) } else { end }), || false);
            } else if self.mail().lie_down(Sleep::Timed, || false) {
                self.mail().sleep(Sleep::Timed, Some(lookout.nap()));
            }
            let passed = until.is_some_and(|until| until <= Instant::now());
            if passed || self.mail().any() || self.ready(|ready| ready.waiting()) > 0 || lookout.helps() {
                return true;
            }
        }
        false
    }

    /// Whether no worker has anything to do, nor ever will. Asked when this one is asleep for the others; the first worker is told.
    fn all_wait_in_vain(&self, until: Option<Instant>) -> bool {
        let core = self.core();
        let all = self.waits_in_vain(until) && core.fresh.many() == 0 && core.mails.iter().all(Mail::sleeps_for_good);
        if all {
            core.stuck.store(true, SeqCst);
            if self.index() != 0 {
                core.mails[0].nudge();
            }
        }
        all && self.index() == 0
    }

    /// Whether it is so indeed, as the first worker asks, which is awake itself and has nobody who is ready; and for how long it asks [nobody comes](Core::while_nobody_comes).
    ///
    /// What a worker has [seen](Worker::all_wait_in_vain) may be over: a thread outside may have brought a fiber since, and one of those at which it looked first may have been
    /// awakened by one that lay down before it was looked at. So the others must all be asleep, and none may have lain down in the meantime. Then nobody was awake to wake any of them
    /// after it was looked at: the first who did so would have been awake after that, and asleep when it was looked at itself. They are all asleep
    /// at the end, and stay so, as only fibers wake them that are brought or run.
    pub(crate) fn all_others_sleep(&self) -> bool {
        let core = self.core();
        let rested = core.rested();
        // Whoever was expected has brought what it brings before it is so no more, so that is asked first.
        self.waits_in_vain(self.timers.next())
            && core.mails.iter().skip(1).all(Mail::sleeps_for_good)
            && core.fresh.many() == 0
            && !self.mail().any()
            && core.rested() == rested
    }

    /// Blocks the kernel thread until there is mail, or something at its descriptors, or to this time; not at all if there is a reason to be `awake`, which is asked when
    /// others know already that this worker sleeps.
    fn sleep(&self, until: Option<Instant>, awake: impl FnOnce() -> bool) {
        let mail = self.mail();
        let how = if until.is_none() && !self.outside.is_awaited() { Sleep::ForGood } else { Sleep::AtDescriptors };
        if how == Sleep::AtDescriptors
            && let Ok(reactor) = self.outside.reactor()
        {
            mail.has_bell(reactor.bell());
        }
        self.is_asleep(true);
        if how == Sleep::ForGood {
            self.core().rests();
        }
        if mail.lie_down(how, awake) {
            match how {
                Sleep::AtDescriptors => self.outside.sleep(self, until, || !mail.lies(how)),
                _ => mail.sleep(how, None),
            }
            mail.get_up(how);
        }
        self.is_asleep(false);
    }
}
