//! The words of a condition variable.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use policy::Instant;

use crate::deadline::TimedOut;
use crate::protocol::wait_loop::Awaited;
use crate::protocol::wait_state::WaitState;
use crate::sync::{self, AtomicU32, AtomicU64, Futex, Scope};
use crate::waiting::Waiting;

/// The number of eventcounts. If more threads wait, some wake each other needlessly.
const EVENT_COUNTS: usize = if cfg!(loom) { 1 } else { 16 };

/// The memory of a condition variable: without pointers, and valid as zeros.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawCondvar {
    pub(crate) wait_state: WaitState,
    /// Upper half: the number of arrivals modulo 2^32. Lower half: the number of notified ones.
    tickets: AtomicU64,
    event_counts: [EventCount; EVENT_COUNTS],
}

/// The position of a thread in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

impl RawCondvar {
    sync::const_fn! {
        pub(crate) fn new() -> RawCondvar {
            #[cfg(not(loom))]
            let event_counts = [const { EventCount::new() }; EVENT_COUNTS];
            #[cfg(loom)]
            let event_counts = std::array::from_fn(|_| EventCount::new());
            RawCondvar { wait_state: WaitState::new(), tickets: AtomicU64::new(0), event_counts }
        }
    }

    /// Draws a ticket. Later notifications count for it.
    pub(crate) fn arrive(&self) -> Ticket {
        Ticket((self.tickets.fetch_add(1 << 32, AcqRel) >> 32) as u32)
    }

    /// Waits until the ticket is notified.
    pub(crate) fn wait(&self, ticket: Ticket, waiting: Waiting, deadline: Option<Instant>) -> Result<(), TimedOut> {
        loop {
            let mut notification = Notification { condvar: self, ticket };
            match self.wait_state.wait(&mut notification, waiting, deadline) {
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

    /// Notifies the next `count(arrived, notified)` tickets. Returns that number.
    fn notify(&self, count: impl Fn(u32, u32) -> u32) -> u32 {
        let mut ahead = 0;
        let notify = |tickets: u64| {
            let (arrived, notified) = ((tickets >> 32) as u32, tickets as u32);
            ahead = count(arrived, notified);
            (ahead > 0).then(|| u64::from(arrived) << 32 | u64::from(notified.wrapping_add(ahead)))
        };
        let Ok(before) = self.tickets.fetch_update(AcqRel, Acquire, notify) else { return 0 };
        for ticket in 0..ahead.min(EVENT_COUNTS as u32) {
            self.event_count(Ticket((before as u32).wrapping_add(ticket))).advance();
        }
        ahead
    }

    fn event_count(&self, ticket: Ticket) -> &EventCount {
        &self.event_counts[ticket.0 as usize % EVENT_COUNTS]
    }

    fn is_notified(&self, ticket: Ticket) -> bool {
        behind(ticket.0.wrapping_add(1), self.tickets.load(Acquire) as u32) == 0
    }
}

/// By how many `notified` is behind `arrived`, or zero if it is not. Both wrap around.
fn behind(arrived: u32, notified: u32) -> u32 {
    u32::try_from(arrived.wrapping_sub(notified).cast_signed()).unwrap_or(0)
}

/// An eventcount on which some of the waiters sleep: how often it was advanced, and in bit 0
/// whether a thread sleeps until it advances again.
#[derive(Debug)]
#[repr(transparent)]
struct EventCount(Futex);

const SLEEPERS: u32 = 1;
const ADVANCE: u32 = 2;

impl EventCount {
    sync::const_fn! {
        fn new() -> EventCount {
            EventCount(Futex::new(AtomicU32::new(0)))
        }
    }

    /// Wakes all its sleepers.
    fn advance(&self) {
        let advance = |seen: u32| Some((seen & !SLEEPERS).wrapping_add(ADVANCE));
        if self.0.word().fetch_update(Release, Relaxed, advance).is_ok_and(|seen| seen & SLEEPERS != 0) {
            self.0.wake(u32::MAX, Scope::Process);
        }
    }

    /// Sleeps until it advances, unless `awake` is true after the count was read. May return early.
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

/// The notification of a ticket.
struct Notification<'a> {
    condvar: &'a RawCondvar,
    ticket: Ticket,
}

impl Awaited for Notification<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.condvar.is_notified(self.ticket)
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        let is_notified = || self.condvar.is_notified(self.ticket);
        self.condvar.event_count(self.ticket).sleep_unless(is_notified, deadline);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn waiters_are_notified_in_the_order_of_arrival() {
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
    fn a_waiter_that_gives_up_neither_leaves_nor_steals_a_notification() {
        let condvar = RawCondvar::new();
        let tickets = [0; 3].map(|_| condvar.arrive());
        let waiting = Waiting::by(policy::waiting::WaitingRule::AlwaysBlock);
        let late = Some(Instant::ZERO);
        assert_eq!(condvar.wait(tickets[1], waiting, late), Err(TimedOut));
        // The first ticket may have been notified in its place. The last one is next.
        assert!(!condvar.is_notified(tickets[2]));
        condvar.notify_one();
        assert!(condvar.is_notified(tickets[2]));
        assert_eq!(condvar.wait(tickets[2], waiting, late), Ok(()));
    }

    #[test]
    fn tickets_wrap_around() {
        let condvar = RawCondvar { tickets: AtomicU64::new(u64::MAX), ..RawCondvar::new() };
        let tickets = [0; 3].map(|_| condvar.arrive());
        assert_eq!(tickets[0], Ticket(u32::MAX));
        condvar.notify_one();
        condvar.notify_one();
        assert_eq!(tickets.map(|ticket| condvar.is_notified(ticket)), [true, true, false]);
    }
}
