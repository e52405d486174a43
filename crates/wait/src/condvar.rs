#![doc = include_str!("../condvar.md")]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::{fmt, time};

use policy::Instant;

use crate::deadline::{self, TimedOut};
use crate::ledger::Ledger;
use crate::mutex::MutexGuard;
use crate::outlast::Awaited;
use crate::statistics::Statistics;
use crate::sync::{self, AtomicU64, Futex, Scope};
use crate::waiting::Waiting;

/// Threads that have a [`Mutex`](crate::Mutex) wait here until another has changed what it guards.
///
/// As [`std::sync::Condvar`], but how a thread waits is decided by a waiting rule (this one's while it waits to be notified, the
/// mutex's while it then waits for the mutex), and what that came to is counted.
///
/// A thread may wake without having been notified, so it must look again at what it waits for, as `wait_while` does. Threads
/// that wait at one condition variable may have different mutexes.
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
    raw: RawCondvar,
    waiting: Waiting,
}

/// How a wait with a deadline has ended.
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

impl Condvar {
    sync::const_fn! {
        /// A condition variable for threads that wait by the adaptive rule.
        pub fn new() -> Condvar {
            Condvar::with(Waiting::ADAPTIVE)
        }
    }

    sync::const_fn! {
        /// A condition variable for threads that wait like this.
        pub fn with(waiting: Waiting) -> Condvar {
            Condvar { raw: RawCondvar::new(), waiting }
        }
    }

    /// Gives the mutex back, waits until notified, and takes the mutex again. No notification is missed that comes after
    /// the mutex was given back. May return without any.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_by(guard, None).0
    }

    /// Waits as [`Condvar::wait`] does for as long as the condition is true of the value.
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

    /// As [`Condvar::wait`], but waits to be notified no longer than to the deadline. It always takes the mutex again, which
    /// can take longer.
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: time::Instant,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        self.wait_by(guard, Some(deadline::at(deadline)))
    }

    /// As [`Condvar::wait_until`], with a timeout that begins now.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: time::Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        self.wait_by(guard, Some(deadline::after(timeout)))
    }

    /// As [`Condvar::wait_while`], but waits no longer than for this time. Times out only if the condition is still true
    /// of the value at the end.
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: time::Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let deadline = deadline::after(timeout);
        let mut result = WaitTimeoutResult { timed_out: false };
        while condition(&mut guard) {
            if result.timed_out {
                return (guard, result);
            }
            (guard, result) = self.wait_by(guard, Some(deadline));
        }
        (guard, WaitTimeoutResult { timed_out: false })
    }

    fn wait_by<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let ticket = self.raw.arrive();
        guard.unlocked(|| {
            let result = self.raw.wait(ticket, self.waiting, deadline);
            WaitTimeoutResult { timed_out: result.is_err() }
        })
    }

    /// Wakes the one that has waited longest, if anybody waits. Never blocks.
    pub fn notify_one(&self) {
        self.raw.notify_one();
    }

    /// Wakes all that wait. Never blocks.
    pub fn notify_all(&self) {
        self.raw.notify_all();
    }

    /// What waiting to be notified has come to so far.
    pub fn statistics(&self) -> Statistics {
        self.raw.statistics()
    }
}

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

/// How many bells there are. More than as many threads that wait wake each other sometimes.
#[cfg(not(loom))]
const BELLS: usize = 16;
#[cfg(loom)]
const BELLS: usize = 1;

/// A condition variable's memory: without pointers, and valid as zeros.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawCondvar {
    ledger: Ledger,
    /// How many have arrived, modulo 2^32, above; how many of them have been notified below.
    tickets: AtomicU64,
    bells: [Bell; BELLS],
}

/// A thread's place in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

impl RawCondvar {
    sync::const_fn! {
        pub(crate) fn new() -> RawCondvar {
            #[cfg(not(loom))]
            let bells = [const { Bell::new() }; BELLS];
            #[cfg(loom)]
            let bells = std::array::from_fn(|_| Bell::new());
            RawCondvar { ledger: Ledger::new(), tickets: AtomicU64::new(0), bells }
        }
    }

    /// Takes a ticket: notifications from now on are for it too.
    pub(crate) fn arrive(&self) -> Ticket {
        Ticket((self.tickets.fetch_add(1 << 32, AcqRel) >> 32) as u32)
    }

    /// Waits until the ticket is notified.
    ///
    /// # Errors
    /// When the deadline has passed; never without one.
    pub(crate) fn wait(&self, ticket: Ticket, waiting: Waiting, deadline: Option<Instant>) -> Result<(), TimedOut> {
        loop {
            let mut notification = Notification { condvar: self, ticket };
            match self.ledger.outlast(&mut notification, waiting, deadline) {
                Err(TimedOut) if deadline.is_none() => {}
                Err(TimedOut) if self.notify(|_, notified| behind(ticket.0.wrapping_add(1), notified)) > 0 => {
                    return Err(TimedOut);
                }
                _ => return Ok(()),
            }
        }
    }

    pub(crate) fn notify_one(&self) {
        self.notify(|arrived, notified| behind(arrived, notified).min(1));
    }

    pub(crate) fn notify_all(&self) {
        self.notify(behind);
    }

    /// Notifies so many more as `count` makes of how many have arrived and how many of them have been notified, and returns
    /// that number.
    fn notify(&self, count: impl Fn(u32, u32) -> u32) -> u32 {
        let mut seen = self.tickets.load(Acquire);
        let (first, count) = loop {
            let (arrived, notified) = ((seen >> 32) as u32, seen as u32);
            let count = count(arrived, notified);
            if count == 0 {
                return 0;
            }
            let next = u64::from(arrived) << 32 | u64::from(notified.wrapping_add(count));
            match self.tickets.compare_exchange_weak(seen, next, AcqRel, Acquire) {
                Ok(_) => break (notified, count),
                Err(actual) => seen = actual,
            }
        };
        for ticket in 0..count.min(BELLS as u32) {
            self.bell(Ticket(first.wrapping_add(ticket))).ring();
        }
        count
    }

    fn bell(&self, ticket: Ticket) -> &Bell {
        &self.bells[ticket.0 as usize % BELLS]
    }

    fn is_notified(&self, ticket: Ticket) -> bool {
        behind(ticket.0.wrapping_add(1), self.tickets.load(Acquire) as u32) == 0
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.ledger.statistics()
    }
}

/// By how many `notified` is behind `arrived`; zero if it is not. Both wrap around.
fn behind(arrived: u32, notified: u32) -> u32 {
    u32::try_from(arrived.wrapping_sub(notified).cast_signed()).unwrap_or(0)
}

/// What some of those that wait sleep on: how often it was rung, and in bit 0 whether anybody sleeps until it is again.
#[derive(Debug)]
#[repr(transparent)]
struct Bell(Futex);

const SLEEPERS: u32 = 1;
const RUNG: u32 = 2;

impl Bell {
    sync::const_fn! {
        fn new() -> Bell {
            Bell(Futex::new(0))
        }
    }

    /// Wakes all that sleep on it.
    fn ring(&self) {
        let word = self.0.word();
        let mut seen = word.load(Relaxed);
        loop {
            match word.compare_exchange_weak(seen, (seen & !SLEEPERS).wrapping_add(RUNG), Release, Relaxed) {
                Ok(_) if seen & SLEEPERS != 0 => return self.0.wake_all(Scope::Process),
                Ok(_) => return,
                Err(actual) => seen = actual,
            }
        }
    }

    /// Sleeps until it is rung, if after a look at it nothing speaks against that. May return early.
    fn sleep_unless(&self, awake: impl Fn() -> bool, deadline: Option<Instant>) {
        let word = self.0.word();
        let seen = word.load(Acquire);
        if awake() {
            return;
        }
        let asleep = seen | SLEEPERS;
        if seen == asleep || word.compare_exchange(seen, asleep, Relaxed, Relaxed).is_ok() {
            self.0.sleep(asleep, deadline, Scope::Process);
        }
    }
}

/// That a ticket is notified, as something to wait for.
struct Notification<'a> {
    condvar: &'a RawCondvar,
    ticket: Ticket,
}

impl Awaited for Notification<'_> {
    #[inline]
    fn has_come(&mut self) -> bool {
        self.condvar.is_notified(self.ticket)
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        let is_notified = || self.condvar.is_notified(self.ticket);
        self.condvar.bell(self.ticket).sleep_unless(is_notified, deadline);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn those_that_wait_are_notified_in_the_order_of_their_arrival() {
        let condvar = RawCondvar::new();
        condvar.notify_one();
        let tickets = [0; 4].map(|_| condvar.arrive());
        let notified = || tickets.map(|ticket| condvar.is_notified(ticket));
        assert_eq!(notified(), [false; 4]);
        condvar.notify_one();
        assert_eq!(notified(), [true, false, false, false]);
        condvar.notify_all();
        assert_eq!(notified(), [true; 4]);
        assert!(!condvar.is_notified(condvar.arrive()));
    }

    #[test]
    fn who_gives_up_leaves_its_notification_to_nobody_and_takes_nobody_elses() {
        let condvar = RawCondvar::new();
        let tickets = [0; 3].map(|_| condvar.arrive());
        let waiting = Waiting::by(policy::waiting::Rule::AlwaysBlock);
        let late = Some(Instant::ZERO);
        assert_eq!(condvar.wait(tickets[1], waiting, late), Err(TimedOut));
        // The first may have been notified in its place; the last is the next.
        assert!(!condvar.is_notified(tickets[2]));
        condvar.notify_one();
        assert!(condvar.is_notified(tickets[2]));
        assert_eq!(condvar.wait(tickets[2], waiting, late), Ok(()));
    }

    #[test]
    fn tickets_go_round() {
        let condvar = RawCondvar { tickets: AtomicU64::new(u64::MAX), ..RawCondvar::new() };
        let tickets = [0; 3].map(|_| condvar.arrive());
        assert_eq!(tickets[0], Ticket(u32::MAX));
        condvar.notify_one();
        condvar.notify_one();
        assert_eq!(tickets.map(|ticket| condvar.is_notified(ticket)), [true, true, false]);
    }
}
