#![doc = include_str!("../../robust.md")]

use std::sync::atomic::Ordering::{self, AcqRel, Relaxed, Release};

use policy::Instant;

pub use crate::protocol::wait_loop::Awaited;
use crate::sync::{AtomicU64, Futex};
pub use sys::futex::Scope;

/// A lock whose owner may die. A word of zeros is free.
#[derive(Debug)]
#[repr(transparent)]
pub struct RobustLock(Futex<AtomicU64>);

/// The owner of the lock, or a thread that waits for it: a number below 2^24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerId(pub u32);

/// A value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// The owner's number plus one. Zero if there is none.
    const OWNER: u64 = (1 << 25) - 1;
    /// An owner has died, and no thread has declared since that the guarded data is consistent.
    const DAMAGED: u64 = 1 << 30;
    /// A thread sleeps, or is about to.
    const SLEEPERS: u64 = 1 << 31;
    /// One more acquisition.
    const ACQUISITION: u64 = 1 << 32;

    /// The owner of the lock.
    pub fn owner(self) -> Option<OwnerId> {
        ((self.0 & Self::OWNER) as u32).checked_sub(1).map(OwnerId)
    }

    fn is_damaged(self) -> bool {
        self.0 & Self::DAMAGED != 0
    }

    fn has_sleepers(self) -> bool {
        self.0 & Self::SLEEPERS != 0
    }

    fn acquired_by(self, owner: OwnerId) -> State {
        State((self.0 & !Self::OWNER).wrapping_add(Self::ACQUISITION) | (u64::from(owner.0) + 1) & Self::OWNER)
    }

    fn with(self, mark: u64) -> State {
        State(self.0 | mark)
    }

    /// Free, without sleepers.
    fn released(self, damaged: bool) -> State {
        let rest = State(self.0 & !(Self::OWNER | Self::DAMAGED | Self::SLEEPERS));
        if damaged { rest.with(Self::DAMAGED) } else { rest }
    }
}

/// The condition of the guarded data when the lock was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// The last owner released the lock.
    Intact,
    /// An owner has died, and no thread has declared since that the guarded data is consistent.
    Damaged,
}

impl RobustLock {
    /// A free lock.
    #[cfg(loom)]
    #[expect(clippy::new_without_default, reason = "for the model alone")]
    pub fn new() -> RobustLock {
        RobustLock(Futex::new(AtomicU64::new(0)))
    }

    /// The current value of the word.
    pub fn state(&self) -> State {
        State(self.0.word().load(Relaxed))
    }

    /// Acquires the lock if it is free.
    #[inline]
    pub fn try_acquire(&self, owner: OwnerId) -> Option<Integrity> {
        self.acquire_with(owner, 0)
    }

    #[inline]
    fn acquire_with(&self, owner: OwnerId, mark: u64) -> Option<Integrity> {
        let acquire = |seen: State| seen.owner().is_none().then(|| seen.acquired_by(owner).with(mark));
        let seen = self.update(AcqRel, acquire)?;
        Some(if seen.is_damaged() { Integrity::Damaged } else { Integrity::Intact })
    }

    /// Acquires, as damaged, the lock of a dead owner that has not released it since it was `seen`.
    ///
    /// The owner must have been found dead *after* the word was seen.
    pub fn take_over(&self, seen: State, owner: OwnerId) -> bool {
        let mut now = seen;
        while now.with(State::SLEEPERS) == seen.with(State::SLEEPERS) {
            // This thread may have slept, so it keeps the sleepers bit for the others.
            match self.exchange(now, now.acquired_by(owner).with(State::DAMAGED | State::SLEEPERS)) {
                Ok(()) => return true,
                Err(actual) => now = actual,
            }
        }
        false
    }

    /// Releases the lock, as damaged or intact, if the caller holds it. Wakes one sleeper.
    pub fn release(&self, owner: OwnerId, damaged: bool, scope: Scope) {
        let release = |seen: State| (seen.owner() == Some(owner)).then(|| seen.released(damaged));
        if self.update(Release, release).is_some_and(State::has_sleepers) {
            self.0.wake(1, scope);
        }
    }

    /// Replaces the value by the result of `update`, and returns it. `None` if that is `None`.
    #[inline]
    fn update(&self, order: Ordering, update: impl Fn(State) -> Option<State>) -> Option<State> {
        let update = |word| update(State(word)).map(|state| state.0);
        self.0.word().fetch_update(order, Relaxed, update).map(State).ok()
    }

    #[inline]
    fn exchange(&self, seen: State, next: State) -> Result<(), State> {
        self.0.word().compare_exchange(seen.0, next.0, AcqRel, Relaxed).map(|_| ()).map_err(State)
    }
}

/// An attempt of one thread to acquire the lock.
#[derive(Debug)]
pub struct LockAttempt<'a> {
    lock: &'a RobustLock,
    owner: OwnerId,
    scope: Scope,
    /// Whether it has slept: then it may have been woken in place of others that still sleep.
    slept: bool,
    /// The condition of the guarded data when the lock was acquired.
    pub integrity: Integrity,
}

impl<'a> LockAttempt<'a> {
    /// An attempt by this owner.
    pub fn new(lock: &'a RobustLock, owner: OwnerId, scope: Scope) -> LockAttempt<'a> {
        LockAttempt { lock, owner, scope, slept: false, integrity: Integrity::Intact }
    }

    /// Abandons the attempt, although the thread may have been woken for it.
    pub fn give_up(self) {
        if !self.slept {
            return;
        }
        // If the lock is held, its owner will wake a sleeper. Otherwise this thread does.
        let keep_sleepers = |seen: State| seen.owner().map(|_| seen.with(State::SLEEPERS));
        if self.lock.update(AcqRel, keep_sleepers).is_none() {
            self.lock.0.wake(1, self.scope);
        }
    }
}

impl Awaited for LockAttempt<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        let mark = if self.slept { State::SLEEPERS } else { 0 };
        self.lock.acquire_with(self.owner, mark).inspect(|&integrity| self.integrity = integrity).is_some()
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        let mut seen = self.lock.state();
        while seen.owner().is_some() {
            let asleep = seen.with(State::SLEEPERS);
            if seen != asleep
                && let Err(actual) = self.lock.exchange(seen, asleep)
            {
                seen = actual;
                continue;
            }
            self.slept = true;
            return self.lock.0.sleep(asleep.0 as u32, deadline, self.scope);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ONE: OwnerId = OwnerId(0);
    const OTHER: OwnerId = OwnerId((1 << 24) - 1);

    fn free() -> RobustLock {
        RobustLock(Futex::new(AtomicU64::new(0)))
    }

    #[test]
    fn a_lock_has_one_owner_and_only_that_one_releases_it() {
        let lock = free();
        assert_eq!(lock.try_acquire(ONE), Some(Integrity::Intact));
        assert_eq!(lock.try_acquire(OTHER), None);
        lock.release(OTHER, false, Scope::Process);
        assert_eq!(lock.state().owner(), Some(ONE));
        lock.release(ONE, false, Scope::Process);
        assert_eq!(lock.try_acquire(OTHER), Some(Integrity::Intact));
        assert_eq!(lock.state().owner(), Some(OTHER));
    }

    #[test]
    fn a_lock_stays_damaged_until_an_owner_declares_it_intact() {
        let lock = free();
        lock.try_acquire(ONE);
        assert!(lock.take_over(lock.state(), OTHER));
        lock.release(OTHER, true, Scope::Process);
        assert_eq!(lock.try_acquire(ONE), Some(Integrity::Damaged));
        lock.release(ONE, false, Scope::Process);
        assert_eq!(lock.try_acquire(ONE), Some(Integrity::Intact));
    }

    #[test]
    fn a_lock_that_was_released_meanwhile_is_not_taken_over_even_from_the_same_owner() {
        let lock = free();
        lock.try_acquire(ONE);
        let seen = lock.state();
        lock.release(ONE, false, Scope::Process);
        lock.try_acquire(ONE);
        assert!(!lock.take_over(seen, OTHER));
        assert_eq!(lock.state().owner(), Some(ONE));
    }

    #[test]
    fn the_number_of_acquisitions_wraps_around_without_changing_the_rest() {
        let lock = RobustLock(Futex::new(AtomicU64::new(u64::from(u32::MAX) << 32)));
        assert_eq!(lock.try_acquire(OTHER), Some(Integrity::Intact));
        assert_eq!(lock.state().0, 1 << 24);
    }

    #[test]
    fn a_thread_that_has_slept_keeps_the_sleepers_bit_for_the_others() {
        for acquires in [true, false] {
            let lock = free();
            lock.try_acquire(ONE);
            let mut attempt = LockAttempt::new(&lock, OTHER, Scope::Process);
            attempt.sleep(Some(Instant::from_nanos(1)));
            assert!(lock.state().has_sleepers());
            lock.release(ONE, false, Scope::Process);
            assert!(!lock.state().has_sleepers());
            if acquires {
                assert!(attempt.poll());
            } else {
                lock.try_acquire(ONE);
                attempt.give_up();
            }
            assert!(lock.state().has_sleepers());
        }
    }
}
