//! How fibers that have started move from one worker to another.
//!
//! They are in the queues of their workers, which no other worker touches. So a worker without
//! ready fibers *requests* some. A worker that has others sees the request when it next reads its
//! clock, and gives its share away. If its running fiber reaches no safepoint, but is preemptible,
//! it sees the request at a tick, which the worker that requests fires.
//!
//! Fibers that have stopped in a call of the library are [offered](crate::offered) to all workers.
//!
//! # Interrupted fibers
//! A fiber that was interrupted outside the runtime may hold a lock for which a worker waits, while
//! the library works there. Such a worker [donates its timeslice](crate::preempt::donation) to the
//! interrupted fibers on its list. So each of these must be on the list of a worker whose timer
//! ticks, and for the moment in which it is on none, both workers must wait for nothing.
//!
//! The worker that gives it away takes it off its list, and sends it by a single exchange. The one
//! that gets it sleeps, because it has nothing to do, and has prepared its ticks. It says both in
//! the word of its [inbox](crate::inbox), which the exchange replaces. So it puts the fiber on its
//! list first, and then does everything else, for which it may have to wait for what the fiber
//! holds. A third worker that takes [stuck mail](Worker::take_stuck_mail) does the same.

use policy::ThreadId;
use policy::feedback::{MOST_GIVEN, given_share};

use crate::inbox::Inbox;
use crate::record::{Fiber, State};
use crate::worker::Worker;

/// Some fibers. Their number is limited, so that no memory must be allocated for them.
#[derive(Default)]
struct Batch([Option<Fiber>; MOST_GIVEN]);

impl Batch {
    /// As many as there are, up to a number.
    fn take(most: usize, next: impl FnMut() -> Option<Fiber>) -> Batch {
        let mut batch = Batch::default();
        batch.0.iter_mut().zip(std::iter::from_fn(next).take(most)).for_each(|(place, fiber)| *place = Some(fiber));
        batch
    }

    fn push(&mut self, fiber: Fiber) {
        match self.0.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(fiber),
            None => unreachable!("one batch at a time is sent"),
        }
    }

    fn fibers(&self) -> impl Iterator<Item = Fiber> {
        self.0.iter().copied().flatten()
    }
}

impl Worker {
    /// Takes what other threads have sent.
    #[cold]
    #[inline(never)]
    pub(crate) fn receive(&self) {
        self.take_in_all(|each| self.inbox().take(each));
    }

    /// Takes fibers that are on their way to workers that do not look at their inboxes: the fibers
    /// that run there reach no safepoint.
    pub(crate) fn take_stuck_mail(&self) {
        for inbox in self.other_inboxes() {
            let steal = |each: &mut dyn FnMut(Fiber)| {
                let take_ready = |fiber: Fiber| {
                    if fiber.state.get() == State::Ready { each(fiber) } else { inbox.send(fiber) }
                };
                inbox.steal(self.has_ticks(), take_ready);
            };
            self.take_in_all(steal);
        }
    }

    /// Takes in fibers that were sent, oldest first. Interrupted ones are older than all others.
    fn take_in_all(&self, visit: impl FnOnce(&mut dyn FnMut(Fiber))) {
        let mut interrupted = Batch::default();
        visit(&mut |fiber| {
            if fiber.state.get() == State::Ready && fiber.thread().was_interrupted.get() {
                // A fiber may have left ticks blocked on this thread.
                sys::tick::allow_on_this_thread();
                self.list_interrupted(fiber);
                interrupted.push(fiber);
            } else {
                self.take_in_sent(fiber);
            }
        });
        interrupted.fibers().for_each(|fiber| self.take_in_sent(fiber));
    }

    /// Takes in a fiber that was sent, so that it is ready here.
    fn take_in_sent(&self, fiber: Fiber) {
        match fiber.state.get() {
            State::Unstarted => {
                self.take_in(fiber);
                // The record will be this worker's. If the threads outside got none in return, they
                // would need ever more, and this worker would collect them.
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
    }

    /// Whether a ready fiber of this worker may continue on another one.
    fn may_give_away(&self, fiber: Fiber) -> bool {
        // The stack of the current fiber may still be in use.
        self.running() != Some(fiber) && fiber.is_movable()
    }

    /// Gives away a ready fiber, which is not in the queue.
    fn give_away(&self, fiber: Fiber) {
        fiber.thread().share.set(self.ready(|ready| ready.release(fiber.id())));
        fiber.home.set(None);
    }

    /// Makes this worker the home of a ready fiber that another worker has given away.
    pub(crate) fn take_in_started(&self, fiber: Fiber) {
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

    /// Gives ready fibers to workers that have requested some. A request remains if none can be
    /// given now. Keeps at least `kept`, which is 0 or 1.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_to_others(&self, kept: usize) {
        let many = self.ready(|ready| ready.waiting()).saturating_sub(kept);
        let offered = &self.core().offered;
        if many > 0 && offered.take_request() && !self.offer_some(many) && !self.send_interrupted(many) {
            let _ = offered.request();
        }
    }

    /// Takes a ready fiber that may move, and was interrupted or not.
    fn take_movable(&self, was_interrupted: bool) -> Option<Fiber> {
        let core = self.core();
        let is_one = |thread: ThreadId| {
            let fiber = core.records.get(thread.0);
            fiber.state.get() == State::Ready
                && self.may_give_away(fiber)
                && fiber.thread().was_interrupted.get() == was_interrupted
        };
        self.take_ready(|ready| ready.take_if(is_one))
    }

    /// Offers half of this many ready fibers to all workers. Returns false if none of them may move
    /// in this way.
    fn offer_some(&self, many: usize) -> bool {
        let core = self.core();
        let (mut gives, mut wakes) = (false, false);
        for _ in 0..given_share(many, 1) {
            let Some(fiber) = self.take_movable(false) else { break };
            self.give_away(fiber);
            wakes |= core.offered.push(fiber);
            gives = true;
        }
        if wakes {
            core.wake_idle_worker();
        }
        gives
    }

    /// Sends an equal share of this many ready fibers, or of those that were interrupted among
    /// them, to each worker that can take them. Returns false if no fiber was sent.
    fn send_interrupted(&self, many: usize) -> bool {
        if !self.has_interrupted() {
            return false;
        }
        let core = self.core();
        let takers = || core.inboxes.iter().filter(|inbox| inbox.takes_interrupted());
        let share = given_share(many, takers().count());
        let mut gives = false;
        for inbox in takers() {
            let batch = Batch::take(share, || self.take_movable(true));
            if batch.fibers().next().is_none() {
                // Those that get none get some later.
                let _ = core.offered.request();
                break;
            }
            batch.fibers().for_each(|fiber| self.give_away(fiber));
            // From here on this worker waits for nothing until the fibers are on a list again.
            batch.fibers().for_each(|fiber| self.unlist_interrupted(fiber));
            if inbox.send_to_taker(batch.fibers()) {
                gives = true;
            } else {
                batch.fibers().for_each(|fiber| self.list_interrupted(fiber));
                batch.fibers().for_each(|fiber| self.take_in_sent(fiber));
            }
        }
        gives
    }

    /// Requests ready fibers of other workers. `again` makes workers look that may have found this
    /// one awake before.
    pub(crate) fn request_fibers(&self, again: bool) {
        let core = self.core();
        if core.offered.len() == 0 && (core.offered.request() || again) {
            let awake = self.other_inboxes().filter(|inbox| !inbox.is_asleep());
            awake.for_each(|inbox| _ = inbox.tick_request.fire());
        }
    }

    fn other_inboxes(&self) -> impl Iterator<Item = &Inbox> {
        let inboxes = self.core().inboxes.iter().enumerate();
        inboxes.filter(|(index, _)| *index != self.index).map(|(_, inbox)| inbox)
    }
}
