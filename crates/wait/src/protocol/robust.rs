#![doc = include_str!("../../robust.md")]

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use policy::Instant;

use crate::protocol::wait_loop::Awaited;
use crate::sync::HalfFutex;
pub use sys::futex::Scope;

/// A lock whose owner may die: a word of zeros is free.
#[derive(Debug)]
#[repr(transparent)]
pub struct RobustLock(HalfFutex);

/// Who has the lock or wants it: a number below 2^24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerId(pub u32);

/// A value of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// The owner's number plus one; zero is nobody.
    const OWNER: u64 = (1 << 25) - 1;
    /// An owner has died, and nobody has said since then that what the lock guards is whole.
    const DAMAGED: u64 = 1 << 30;
    /// Somebody sleeps, or is about to.
    const SLEEPERS: u64 = 1 << 31;
    /// One in the number of times that the lock was taken.
    const ACQUISITION: u64 = 1 << 32;

    /// Who has the lock.
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

    /// Free, and nobody sleeps.
    fn released(self, damaged: bool) -> State {
        let rest = State(self.0 & !(Self::OWNER | Self::DAMAGED | Self::SLEEPERS));
        if damaged { rest.with(Self::DAMAGED) } else { rest }
    }
}

/// How a lock was when it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// Given back by its last owner.
    Intact,
    /// An owner has died, and nobody has said since then that what the lock guards is whole.
    Damaged,
}

impl RobustLock {
    /// A free one.
    #[cfg(loom)]
    #[expect(clippy::new_without_default, reason = "for the model alone")]
    pub fn new() -> RobustLock {
        RobustLock(HalfFutex::new(0))
    }

    /// The word as it is at this moment.
    pub fn state(&self) -> State {
        State(self.0.word().load(Relaxed))
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_acquire(&self, owner: OwnerId) -> Option<Integrity> {
        self.acquire_with(owner, 0)
    }

    #[inline]
    fn acquire_with(&self, owner: OwnerId, mark: u64) -> Option<Integrity> {
        let mut seen = self.state();
        while seen.owner().is_none() {
            match self.exchange(seen, seen.acquired_by(owner).with(mark)) {
                Ok(()) => return Some(if seen.is_damaged() { Integrity::Damaged } else { Integrity::Intact }),
                Err(actual) => seen = actual,
            }
        }
        None
    }

    /// Takes the lock from its owner, who has died, if that has not given it back since it was `seen`; it is then damaged.
    ///
    /// The owner must have been found dead *after* the word was seen.
    pub fn take_over(&self, seen: State, owner: OwnerId) -> bool {
        let mut now = seen;
        while now.with(State::SLEEPERS) == seen.with(State::SLEEPERS) {
            // Who takes over may have slept, and so speaks for the others.
            match self.exchange(now, now.acquired_by(owner).with(State::DAMAGED | State::SLEEPERS)) {
                Ok(()) => return true,
                Err(actual) => now = actual,
            }
        }
        false
    }

    /// Gives the lock back, as damaged or whole, if the caller has it. Wakes one who sleeps.
    pub fn release(&self, owner: OwnerId, damaged: bool, scope: Scope) {
        let mut seen = self.state();
        while seen.owner() == Some(owner) {
            match self.0.word().compare_exchange(seen.0, seen.released(damaged).0, Release, Relaxed) {
                Ok(_) if seen.has_sleepers() => return self.0.wake(1, scope),
                Ok(_) => return,
                Err(actual) => seen = State(actual),
            }
        }
    }

    #[inline]
    fn exchange(&self, seen: State, next: State) -> Result<(), State> {
        self.0.word().compare_exchange(seen.0, next.0, AcqRel, Relaxed).map(|_| ()).map_err(State)
    }
}

/// One's turn at the lock, as something to wait for.
#[derive(Debug)]
pub struct LockAttempt<'a> {
    lock: &'a RobustLock,
    owner: OwnerId,
    scope: Scope,
    /// It has slept, so it may have been woken in the place of others that sleep still.
    slept: bool,
    integrity: Integrity,
}

impl<'a> LockAttempt<'a> {
    /// That of this owner.
    pub fn new(lock: &'a RobustLock, owner: OwnerId, scope: Scope) -> LockAttempt<'a> {
        LockAttempt { lock, owner, scope, slept: false, integrity: Integrity::Intact }
    }

    /// How the lock was when it was taken.
    pub fn integrity(&self) -> Integrity {
        self.integrity
    }

    /// Takes the lock if it is free, and returns whether it was.
    pub fn try_acquire(&mut self) -> bool {
        let mark = if self.slept { State::SLEEPERS } else { 0 };
        self.lock.acquire_with(self.owner, mark).inspect(|&integrity| self.integrity = integrity).is_some()
    }

    /// Sleeps until woken, unless the lock is free, and no longer than to the deadline. May return at any time before.
    pub fn sleep_until(&mut self, deadline: Option<Instant>) {
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

    /// It will not take the lock, though it may have been woken for it.
    pub fn give_up(self) {
        if !self.slept {
            return;
        }
        let mut seen = self.lock.state();
        loop {
            if seen.owner().is_none() {
                return self.lock.0.wake(1, self.scope);
            }
            match self.lock.exchange(seen, seen.with(State::SLEEPERS)) {
                Ok(()) => return,
                Err(actual) => seen = actual,
            }
        }
    }
}

impl Awaited for LockAttempt<'_> {
    #[inline]
    fn poll(&mut self) -> bool {
        self.try_acquire()
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        self.sleep_until(deadline);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ONE: OwnerId = OwnerId(0);
    const OTHER: OwnerId = OwnerId((1 << 24) - 1);

    fn free() -> RobustLock {
        RobustLock(HalfFutex::new(0))
    }

    #[test]
    fn a_lock_is_taken_by_one_at_a_time_and_given_back_by_that_one_only() {
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
    fn a_lock_stays_damaged_until_somebody_says_that_it_is_whole() {
        let lock = free();
        lock.try_acquire(ONE);
        assert!(lock.take_over(lock.state(), OTHER));
        lock.release(OTHER, true, Scope::Process);
        assert_eq!(lock.try_acquire(ONE), Some(Integrity::Damaged));
        lock.release(ONE, false, Scope::Process);
        assert_eq!(lock.try_acquire(ONE), Some(Integrity::Intact));
    }

    #[test]
    fn a_lock_that_was_given_back_meanwhile_is_not_taken_over_though_its_owner_is_the_same() {
        let lock = free();
        lock.try_acquire(ONE);
        let seen = lock.state();
        lock.release(ONE, false, Scope::Process);
        lock.try_acquire(ONE);
        assert!(!lock.take_over(seen, OTHER));
        assert_eq!(lock.state().owner(), Some(ONE));
    }

    #[test]
    fn the_number_of_takings_goes_round_without_touching_the_rest() {
        let lock = RobustLock(HalfFutex::new(u64::from(u32::MAX) << 32));
        assert_eq!(lock.try_acquire(OTHER), Some(Integrity::Intact));
        assert_eq!(lock.state().0, 1 << 24);
    }

    #[test]
    fn who_has_slept_speaks_for_the_others_whatever_it_does() {
        for takes in [true, false] {
            let lock = free();
            lock.try_acquire(ONE);
            let mut attempt = LockAttempt::new(&lock, OTHER, Scope::Process);
            attempt.sleep_until(Some(Instant::from_nanos(1)));
            assert!(lock.state().has_sleepers());
            lock.release(ONE, false, Scope::Process);
            assert!(!lock.state().has_sleepers());
            if takes {
                assert!(attempt.try_acquire());
            } else {
                lock.try_acquire(ONE);
                attempt.give_up();
            }
            assert!(lock.state().has_sleepers());
        }
    }
}
