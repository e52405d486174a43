//! Loom models of the robust lock. See `barrier.rs`.
#![allow(unsafe_code, reason = "the lock guards plain memory")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Release};
use rowlock_wait::robust::{Awaited, Integrity, LockAttempt, OwnerId, RobustLock, Scope};

struct Guarded {
    lock: RobustLock,
    /// Whether owner 0 has died.
    is_dead: AtomicBool,
    count: UnsafeCell<u32>,
}

/// Blocks until it has the lock, or takes it over from the dead owner.
fn lock(guarded: &Guarded, owner: OwnerId) -> Integrity {
    let mut attempt = LockAttempt::new(&guarded.lock, owner, Scope::Process);
    loop {
        let seen = guarded.lock.state();
        if seen.owner() == Some(OwnerId(0)) && guarded.is_dead.load(Acquire) && guarded.lock.take_over(seen, owner) {
            return Integrity::Damaged;
        }
        if attempt.poll() {
            return attempt.integrity;
        }
        attempt.sleep(None);
    }
}

fn count(guarded: &Guarded) {
    // SAFETY: the caller holds the lock. Loom checks that it is the only one.
    guarded.count.with_mut(|count| unsafe { *count += 1 });
}

/// The number of counts, for the last thread.
fn counted(guarded: &Guarded) -> u32 {
    // SAFETY: the others have ended.
    guarded.count.with(|count| unsafe { *count })
}

fn guarded() -> Arc<Guarded> {
    Arc::new(Guarded { lock: RobustLock::new(), is_dead: AtomicBool::new(false), count: UnsafeCell::new(0) })
}

fn model(preemptions: usize, threads: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(threads);
}

fn all_owners_get_the_lock(owners: u32, times: u32, preemptions: usize) {
    model(preemptions, move || {
        let guarded = guarded();
        let others: Vec<_> = (1..=owners)
            .map(|owner| {
                let guarded = guarded.clone();
                loom::thread::spawn(move || {
                    for _ in 0..times {
                        assert_eq!(lock(&guarded, OwnerId(owner)), Integrity::Intact);
                        count(&guarded);
                        guarded.lock.release(OwnerId(owner), false, Scope::Process);
                    }
                })
            })
            .collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(counted(&guarded), owners * times);
    });
}

#[test]
fn two_owners_get_the_lock_twice_each() {
    all_owners_get_the_lock(2, 2, 3);
}

#[test]
fn three_owners_get_the_lock() {
    all_owners_get_the_lock(3, 1, 2);
}

/// One thread dies with the lock. The first one that can know takes it over. The other one, which
/// may sleep, acquires it afterwards.
#[test]
fn a_lock_of_a_dead_owner_is_taken_over_once_and_the_sleepers_get_it() {
    model(3, || {
        let guarded = guarded();
        assert_eq!(guarded.lock.try_acquire(OwnerId(0)), Some(Integrity::Intact));
        let sleeper = {
            let guarded = guarded.clone();
            loom::thread::spawn(move || {
                let found = lock(&guarded, OwnerId(1));
                count(&guarded);
                guarded.lock.release(OwnerId(1), false, Scope::Process);
                found
            })
        };
        count(&guarded);
        guarded.is_dead.store(true, Release);
        // A thread that slept before that is not woken, so this one does not sleep before the death
        // is published.
        let found = lock(&guarded, OwnerId(2));
        count(&guarded);
        guarded.lock.release(OwnerId(2), false, Scope::Process);
        let both = [found, sleeper.join().unwrap()];
        assert_eq!(both.iter().filter(|&&found| found == Integrity::Damaged).count(), 1);
        assert_eq!(counted(&guarded), 3);
    });
}

/// As above, but the thread that takes over does not declare the data intact. So the next one finds
/// it damaged too.
#[test]
fn damage_is_reported_until_it_is_repaired() {
    model(3, || {
        let guarded = guarded();
        guarded.lock.try_acquire(OwnerId(0));
        guarded.is_dead.store(true, Release);
        let other = {
            let guarded = guarded.clone();
            loom::thread::spawn(move || {
                let found = lock(&guarded, OwnerId(1));
                guarded.lock.release(OwnerId(1), true, Scope::Process);
                found
            })
        };
        let found = lock(&guarded, OwnerId(2));
        guarded.lock.release(OwnerId(2), true, Scope::Process);
        assert_eq!([found, other.join().unwrap()], [Integrity::Damaged; 2]);
    });
}
