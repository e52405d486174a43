#![doc = include_str!("../../condvar.md")]

use std::collections::VecDeque;
use std::fmt;
use std::panic::RefUnwindSafe;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use policy::Instant;

use crate::deadline::{Deadline, TimedOut};
use crate::objects::mutex::{Mutex, MutexGuard};
use crate::protocol::notification::{Notification, NotificationCount, Notified};
use crate::protocol::wait_state::WaitState;
use crate::statistics::Statistics;
use crate::sync::{self, Arc, AtomicU32};
use crate::waiting::Waiting;

/// A condition variable: threads with a [`Mutex`](crate::Mutex) wait until its value has changed.
///
/// Like [`std::sync::Condvar`], but a waiting rule decides how threads wait, and their waits are
/// counted. This rule applies until a thread is notified, and then that of the mutex.
///
/// A thread may wake up without a notification, so it must check its condition again, as
/// `wait_while` does. Threads that wait at one condition variable may use different mutexes.
///
/// ```
/// # use rowlock_wait::{Condvar, Mutex};
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         *ready.lock() = true;
///         changed.notify_one();
///     });
///     let ready = changed.wait_while(ready.lock(), |ready| !*ready);
///     assert!(*ready);
/// });
/// ```
pub struct Condvar {
    wait_state: WaitState,
    /// The length of the queue. So a notification without waiters need not lock it.
    queued: AtomicU32,
    /// The threads that wait and are not notified, in the order of arrival.
    queue: Mutex<Queue>,
    waiting: Waiting,
}

type Queue = VecDeque<Arc<NotificationCount>>;

/// The result of a timed wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult {
    timed_out: bool,
}

impl WaitTimeoutResult {
    /// Whether the deadline has passed without a notification.
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }
}

type GuardAndResult<'a, T> = (MutexGuard<'a, T>, WaitTimeoutResult);

impl Condvar {
    sync::const_fn! {
        /// A condition variable for threads that wait by the adaptive rule.
        pub fn new() -> Condvar {
            Condvar::with(Waiting::ADAPTIVE)
        }

        /// A condition variable for threads that wait like this.
        pub fn with(waiting: Waiting) -> Condvar {
            let queue = Mutex::with(VecDeque::new(), waiting);
            Condvar { wait_state: WaitState::new(), queued: AtomicU32::new(0), queue, waiting }
        }
    }

    /// Releases the mutex, waits until notified, and acquires the mutex again. Misses no
    /// notification after the release. May return without a notification.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_timeout(guard, Deadline::NEVER).0
    }

    /// Waits like [`Condvar::wait`] while the condition holds for the value.
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// Like [`Condvar::wait`], but waits for a notification at most until the deadline. It always
    /// acquires the mutex again, which can take longer.
    ///
    /// A thread that times out wakes no other, and has taken no notification from another: one that
    /// reaches it at the deadline or after it ends the wait as usual.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: impl Into<Deadline>,
    ) -> GuardAndResult<'a, T> {
        let deadline = deadline.into().0;
        let notification = self.arrive();
        guard.unlocked(|| WaitTimeoutResult { timed_out: self.wait_for(notification, deadline).is_err() })
    }

    /// Joins the queue. Later notifications count for the calling thread.
    fn arrive(&self) -> Notification {
        let notification = Notification::next();
        self.change_queue(|queue| queue.push_back(notification.count().clone()));
        notification
    }

    fn wait_for(&self, mut notification: Notification, deadline: Option<Instant>) -> Result<(), TimedOut> {
        let waited = self.wait_state.wait(&mut notification, self.waiting, deadline);
        // A thread that is no longer in the queue was notified after its deadline.
        let result = waited.or_else(|why| if self.leave(&notification) { Err(why) } else { Ok(()) });
        notification.end();
        result
    }

    /// Leaves the queue without a notification. Returns `false` if the thread was notified.
    fn leave(&self, notification: &Notification) -> bool {
        let is_it = |count: &Arc<NotificationCount>| Arc::ptr_eq(count, notification.count());
        self.change_queue(|queue| {
            let place = queue.iter().position(is_it);
            place.and_then(|place| queue.remove(place)).is_some()
        })
    }

    fn change_queue<R>(&self, change: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queue = self.queue.lock();
        let result = change(&mut queue);
        self.queued.store(queue.len() as u32, Relaxed);
        result
    }

    /// Like [`Condvar::wait_while`], but waits at most until the deadline. Times out only if the
    /// condition holds.
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        deadline: impl Into<Deadline>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> GuardAndResult<'a, T> {
        let deadline = deadline.into();
        let mut result = WaitTimeoutResult { timed_out: false };
        while condition(&mut guard) {
            if result.timed_out {
                return (guard, result);
            }
            (guard, result) = self.wait_timeout(guard, deadline);
        }
        (guard, WaitTimeoutResult { timed_out: false })
    }

    /// Wakes the thread that has waited longest, if there is one. Waits for no other thread, except
    /// for one that begins or ends a wait, or notifies, in the same moment.
    pub fn notify_one(&self) {
        if self.queued.load(Acquire) > 0 {
            let notified = self.change_queue(|queue| queue.pop_front().and_then(NotificationCount::notify));
            notified.iter().for_each(Notified::wake);
        }
    }

    /// Wakes all waiting threads, and waits for no other thread, like [`Condvar::notify_one`].
    pub fn notify_all(&self) {
        if self.queued.load(Acquire) > 0 {
            let notify = |queue: &mut Queue| queue.drain(..).filter_map(NotificationCount::notify).collect();
            let notified: Vec<Notified> = self.change_queue(notify);
            notified.iter().for_each(Notified::wake);
        }
    }

    /// The counts of all waits for notifications so far.
    pub fn statistics(&self) -> Statistics {
        self.wait_state.statistics()
    }
}

/// A panic of a thread leaves it as it was.
impl RefUnwindSafe for Condvar {}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use policy::waiting::WaitingRule;
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::wait_loop::Awaited;
    use crate::sync::script::ScriptedClock;

    fn condvar() -> Condvar {
        Condvar::with(Waiting::by(WaitingRule::AlwaysBlock))
    }

    #[test]
    fn waiters_are_notified_in_the_order_of_arrival() {
        let condvar = condvar();
        condvar.notify_one();
        let mut waiters = [(); 4].map(|()| condvar.arrive());
        let mut notified = || waiters.each_mut().map(Notification::poll);
        assert_eq!(notified(), [false; 4]);
        condvar.notify_one();
        assert_eq!(notified(), [true, false, false, false]);
        condvar.notify_all();
        assert_eq!(notified(), [true; 4]);
        assert!(!condvar.arrive().poll());
    }

    #[test]
    fn a_waiter_that_gives_up_wakes_no_other_and_keeps_no_notification() {
        let (condvar, mutex, _clock) = (condvar(), Mutex::new(()), ScriptedClock::start());
        let mut before = condvar.arrive();
        let time_out = || condvar.wait_timeout(mutex.lock(), Duration::from_millis(3)).1.timed_out();
        assert!((0..100).all(|_| time_out()));
        let mut after = condvar.arrive();
        assert!((0..100).all(|_| time_out()));
        assert_eq!((before.poll(), after.poll()), (false, false));
        condvar.notify_one();
        assert_eq!((before.poll(), after.poll()), (true, false));
        condvar.notify_one();
        assert!(after.poll());
    }

    #[test]
    fn a_notification_at_the_deadline_is_taken_and_not_lost() {
        let condvar = condvar();
        let (late, mut next) = (condvar.arrive(), condvar.arrive());
        condvar.notify_one();
        assert!(!condvar.leave(&late), "it cannot give up after its notification");
        assert_eq!(condvar.wait_for(late, Some(Instant::ZERO)), Ok(()));
        assert!(!next.poll());
        condvar.notify_one();
        assert!(next.poll());
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Arrive,
        /// The waiter of this number, modulo the number of waiters.
        GiveUp(usize),
        NotifyOne,
        NotifyAll,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let give_up = any::<usize>().prop_map(Step::GiveUp);
        let step = prop_oneof![Just(Step::Arrive), give_up, Just(Step::NotifyOne), Just(Step::NotifyAll)];
        prop::collection::vec(step, 0..60)
    }

    proptest! {
        /// Against a list of numbers.
        #[test]
        fn exactly_the_oldest_remaining_waiters_are_notified(steps in steps()) {
            let condvar = condvar();
            let (mut waiters, mut notified, mut queue) = (Vec::new(), Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Arrive => {
                        queue.push(waiters.len());
                        waiters.push(condvar.arrive());
                        notified.push(false);
                    }
                    Step::GiveUp(number) if !waiters.is_empty() => {
                        let number = number % waiters.len();
                        let is_queued = queue.contains(&number);
                        queue.retain(|&queued| queued != number);
                        prop_assert_eq!(condvar.leave(&waiters[number]), is_queued);
                    }
                    Step::GiveUp(_) => {}
                    Step::NotifyOne | Step::NotifyAll => {
                        let count = if matches!(step, Step::NotifyOne) { queue.len().min(1) } else { queue.len() };
                        queue.drain(..count).for_each(|number| notified[number] = true);
                        if matches!(step, Step::NotifyOne) { condvar.notify_one() } else { condvar.notify_all() }
                    }
                }
                prop_assert_eq!(waiters.iter_mut().map(Notification::poll).collect::<Vec<_>>(), notified.clone());
            }
        }
    }
}
