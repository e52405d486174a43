//! Spinning for signals of another library's condition variable, the *original*, before blocking
//! there.
//!
//! # The protocol
//!
//! A waiter holds the mutex of the condition variable. It
//!
//! 1. enters: it takes a place here, and reads the number of signals;
//! 2. releases the mutex, and polls that number for as long as it likes;
//! 3. acquires the mutex. If it saw a signal, the wait is over;
//! 4. announces that it will block, with the condition variable, the mutex, and the owner that the
//!    mutex records while the waiter holds it;
//! 5. polls once more. If there was a signal, the wait is over;
//! 6. blocks at the original, which first queues the thread and then releases the mutex;
//! 7. leaves.
//!
//! A thread that signals, if a place is taken,
//!
//! 1. counts the signal;
//! 2. waits while an announced waiter of its condition variable is between 4 and 6: that is, while
//!    the mutex has not been released by the announced owner;
//! 3. signals the original.
//!
//! # Why no signal is lost
//!
//! A signal must reach every thread that released the mutex before the signalling thread acquired
//! it. Such a thread has visibly taken a place. Fences order the announcement before the last poll,
//! and the count before the look at announcements. So either the waiter sees the signal in step 5
//! at the latest, or the signalling thread sees the announcement, and signals the original after
//! the waiter is queued there.
//!
//! # Why the original may be destroyed
//!
//! A condition variable may be destroyed as soon as all its waiters have been signalled. As above,
//! a signalled waiter either has seen the signal, and never touches the original again; or it was
//! queued there before the original was signalled, and the original's own `destroy` waits for it.
//!
//! # Why a signalling thread does not wait for long
//!
//! A waiter between 4 and 6 holds the mutex and waits for nothing. If the signalling thread holds
//! the mutex, there is no such waiter. And it does not wait for one that is queued, which could not
//! continue while another thread holds the mutex.
//!
//! The mutex of an announcement must be readable, but a waiter that leaves may be the last one to
//! use it. So a thread that reads it counts itself as an inspector, and the waiter leaves after the
//! last inspector.
//!
//! # Stopped threads
//!
//! A thread may stop anywhere in a signal handler, until another thread lets it continue: garbage
//! collectors stop the world like this. If the other thread signals meanwhile, it must not wait for
//! the stopped one. So both kinds of threads give up after a while:
//!
//! * A thread that signals then signals the original all the same. The waiter, which is not queued
//!   there yet, must notice the counted signal later: it blocks with a deadline, and announces
//!   itself again when that has passed. If a program destroys a condition variable without the
//!   mutex, and a waiter was stopped for so long, the waiter uses what has been destroyed.
//! * A waiter that leaves then does not give its place back.
//!
//! A signal that has woken another thread ends a wait too. Programs must expect such wakeups.
//!
//! `tests/loom/spinning_waiters.rs` checks signals, broadcasts, destruction and giving up.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::sync::{self, AtomicU32, AtomicU64};

/// The maximum number of spinning waiters. Waiters that have blocked keep their places.
pub const PLACES: usize = if cfg!(loom) { 2 } else { 16 };

/// The bit of [`SpinningWaiters::states`] that marks an announcement.
const ANNOUNCED: u64 = 1;
/// Their unit of inspectors.
const INSPECTOR: u64 = 2;

/// The spinning waiters at a condition variable, or at several.
#[derive(Debug)]
pub struct SpinningWaiters {
    /// The number of signals while places were taken.
    signals: AtomicU32,
    /// A bit for each place that is taken.
    taken: AtomicU32,
    /// Of each place, whether there is an announcement, and the number of its inspectors.
    states: [AtomicU64; PLACES],
    /// The announcements.
    conditions: [AtomicU64; PLACES],
    mutexes: [AtomicU64; PLACES],
    owners: [AtomicU64; PLACES],
}

/// A waiter that will block: numbers that the caller chooses, for example addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Where it will block.
    pub condition: u64,
    /// The mutex that it holds until then.
    pub mutex: u64,
    /// The owner that this mutex records.
    pub owner: u64,
}

/// A spinning waiter. It must call [`SpinningWaiter::leave`], or its place stays taken.
#[must_use = "a spinning waiter has to leave"]
#[derive(Clone, Copy, Debug)]
pub struct SpinningWaiter<'a> {
    waiters: &'a SpinningWaiters,
    place: usize,
    before: u32,
}

impl SpinningWaiters {
    sync::const_fn! {
        /// No spinning waiters.
        pub fn new() -> SpinningWaiters {
            SpinningWaiters {
                signals: AtomicU32::new(0),
                taken: AtomicU32::new(0),
                states: sync::zeros(),
                conditions: sync::zeros(),
                mutexes: sync::zeros(),
                owners: sync::zeros(),
            }
        }
    }

    /// Adds a spinning waiter, or returns `None` if there is no place. The calling thread holds the
    /// mutex.
    pub fn enter(&self) -> Option<SpinningWaiter<'_>> {
        let mut taken = self.taken.load(Relaxed);
        loop {
            let place = taken.trailing_ones() as usize;
            if place >= PLACES {
                return None;
            }
            match self.taken.compare_exchange_weak(taken, taken | 1 << place, AcqRel, Relaxed) {
                Ok(_) => return Some(SpinningWaiter { waiters: self, place, before: self.signals.load(Acquire) }),
                Err(now) => taken = now,
            }
        }
    }

    /// Signals the spinning waiters at a condition variable, before the original is signalled, with
    /// or without the mutex. Calls `pause` as long as one of them is about to block there and it
    /// returns `true`.
    ///
    /// `has_released` returns whether the owner of an announcement has released the mutex since, or
    /// may have, with [`Acquire`] ordering. The mutex is readable during the call.
    pub fn signal(
        &self,
        condition: u64,
        has_released: impl Fn(&Announcement) -> bool,
        mut pause: impl FnMut() -> bool,
    ) {
        let mut taken = self.taken.load(Acquire);
        if taken == 0 {
            return;
        }
        self.signals.fetch_add(1, AcqRel);
        sync::fence(SeqCst);
        if cfg!(rowlock_canary = "a-signal-overtakes-a-waiter") {
            return;
        }
        while taken != 0 {
            let place = taken.trailing_zeros() as usize;
            taken &= taken - 1;
            while self.is_about_to_block(place, condition, &has_released) && pause() {}
        }
    }

    /// Whether the waiter at this place has announced that it will block at this condition variable
    /// and may not be queued yet.
    fn is_about_to_block(&self, place: usize, condition: u64, has_released: &impl Fn(&Announcement) -> bool) -> bool {
        let state = &self.states[place];
        let mut seen = state.load(Acquire);
        loop {
            if seen & ANNOUNCED == 0 {
                return false;
            }
            match state.compare_exchange_weak(seen, seen + INSPECTOR, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        let seen = Announcement {
            condition: self.conditions[place].load(Relaxed),
            mutex: self.mutexes[place].load(Relaxed),
            owner: self.owners[place].load(Relaxed),
        };
        let is_queued = seen.condition == condition && has_released(&seen);
        if is_queued {
            // Later signals need not look at the mutex.
            state.fetch_and(!ANNOUNCED, AcqRel);
        }
        state.fetch_sub(INSPECTOR, AcqRel);
        seen.condition == condition && !is_queued
    }

    /// Removes all waiters, in the child of a fork: the threads do not exist there.
    pub fn clear(&self) {
        if self.taken.load(Relaxed) != 0 {
            self.states.iter().for_each(|state| state.store(0, Relaxed));
            self.taken.store(0, Release);
        }
    }
}

impl Default for SpinningWaiters {
    fn default() -> SpinningWaiters {
        SpinningWaiters::new()
    }
}

impl SpinningWaiter<'_> {
    /// Whether there has been a signal. If so, what was done before it is visible.
    pub fn is_signalled(&self) -> bool {
        self.waiters.signals.load(Acquire) != self.before
    }

    /// Announces, for the first time or again, that the calling thread, which holds the mutex, will
    /// block with a deadline. Returns whether there has been a signal, so that it must not block.
    pub fn announce(&self, announcement: Announcement) -> bool {
        let (waiters, place) = (self.waiters, self.place);
        waiters.conditions[place].store(announcement.condition, Relaxed);
        waiters.mutexes[place].store(announcement.mutex, Relaxed);
        waiters.owners[place].store(announcement.owner, Relaxed);
        waiters.states[place].fetch_or(ANNOUNCED, AcqRel);
        sync::fence(SeqCst);
        self.is_signalled()
    }

    /// Removes the waiter. Calls `pause` as long as a signalling thread reads its announcement. If
    /// it returns `false`, the place stays taken.
    pub fn leave(self, mut pause: impl FnMut() -> bool) {
        let state = &self.waiters.states[self.place];
        if state.load(Acquire) != 0 {
            state.fetch_and(!ANNOUNCED, AcqRel);
            while state.load(Acquire) != 0 {
                if !pause() {
                    return;
                }
            }
        }
        self.waiters.taken.fetch_and(!(1 << self.place), AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ANNOUNCEMENT: Announcement = Announcement { condition: 1, mutex: 2, owner: 3 };

    fn signal(waiters: &SpinningWaiters) {
        waiters.signal(1, |_| unreachable!("nothing is announced"), || unreachable!("nothing to wait for"));
    }

    fn leave(waiter: SpinningWaiter) {
        waiter.leave(|| unreachable!("nothing to wait for"));
    }

    #[test]
    fn a_spinning_waiter_sees_signals_since_it_entered() {
        let waiters = SpinningWaiters::new();
        signal(&waiters);
        let waiter = waiters.enter().unwrap();
        assert!(!waiter.is_signalled());
        signal(&waiters);
        let later = waiters.enter().unwrap();
        assert!(waiter.is_signalled() && !later.is_signalled());
        leave(waiter);
        signal(&waiters);
        assert!(later.is_signalled());
        leave(later);
    }

    #[test]
    fn signals_without_spinning_waiters_are_not_counted() {
        let waiters = SpinningWaiters::new();
        leave(waiters.enter().unwrap());
        signal(&waiters);
        assert_eq!(waiters.signals.load(Relaxed), 0);
    }

    #[test]
    fn places_are_limited_and_used_again() {
        let waiters = SpinningWaiters::new();
        let all: Vec<_> = (0..PLACES).map(|_| waiters.enter().unwrap()).collect();
        assert!(waiters.enter().is_none());
        leave(all[3]);
        let again = waiters.enter().unwrap();
        assert_eq!(again.place, 3);
        assert!(waiters.enter().is_none());
    }

    #[test]
    fn a_signal_waits_until_the_announced_owner_has_released_the_mutex() {
        let waiters = SpinningWaiters::new();
        let waiter = waiters.enter().unwrap();
        assert!(!waiter.announce(ANNOUNCEMENT));
        let pauses = std::cell::Cell::new(0);
        let has_released = |seen: &Announcement| {
            assert_eq!(*seen, ANNOUNCEMENT);
            pauses.get() == 5
        };
        waiters.signal(1, has_released, || pauses.replace(pauses.get() + 1) < 5);
        assert_eq!(pauses.get(), 5);
        // The next one need not look.
        signal(&waiters);
        leave(waiter);
    }

    #[test]
    fn a_signal_does_not_wait_for_waiters_at_other_condition_variables_or_ones_that_leave() {
        let waiters = SpinningWaiters::new();
        let waiter = waiters.enter().unwrap();
        waiter.announce(Announcement { condition: 7, ..ANNOUNCEMENT });
        waiters.signal(1, |_| unreachable!("another condition variable"), || unreachable!("nothing to wait for"));
        assert!(waiter.announce(ANNOUNCEMENT), "signals are counted for all");
        let mut pauses = 0;
        waiters.signal(
            1,
            |_| false,
            || {
                pauses += 1;
                leave(waiter);
                true
            },
        );
        assert_eq!(pauses, 1);
    }

    #[test]
    fn a_waiter_leaves_after_the_last_inspector() {
        let waiters = SpinningWaiters::new();
        let waiter = waiters.enter().unwrap();
        waiter.announce(ANNOUNCEMENT);
        let state = &waiters.states[waiter.place];
        state.fetch_add(INSPECTOR, Relaxed);
        let mut pauses = 0;
        waiter.leave(|| {
            pauses += 1;
            assert_eq!(state.load(Relaxed), INSPECTOR, "no inspector is added");
            state.fetch_sub(INSPECTOR, Relaxed);
            true
        });
        assert_eq!(pauses, 1);
    }

    #[test]
    fn a_signal_that_is_not_waited_for_is_seen_at_the_next_announcement() {
        let waiters = SpinningWaiters::new();
        let waiter = waiters.enter().unwrap();
        assert!(!waiter.announce(ANNOUNCEMENT));
        waiters.signal(1, |_| false, || false);
        assert!(waiter.announce(ANNOUNCEMENT));
        leave(waiter);
    }

    #[test]
    fn a_place_whose_inspector_does_not_continue_stays_taken() {
        let waiters = SpinningWaiters::new();
        let waiter = waiters.enter().unwrap();
        waiter.announce(ANNOUNCEMENT);
        waiters.states[0].fetch_add(INSPECTOR, Relaxed);
        waiter.leave(|| false);
        assert_eq!(waiters.enter().unwrap().place, 1);
        // It is not announced, so no signal reads it.
        signal(&waiters);
    }

    #[test]
    fn a_child_process_has_no_waiters() {
        let waiters = SpinningWaiters::new();
        let waiter = waiters.enter().unwrap();
        waiter.announce(ANNOUNCEMENT);
        waiters.clear();
        signal(&waiters);
        assert_eq!(waiters.enter().unwrap().place, 0);
    }
}
