//! A loom model of the same code, with full fences on both sides.

mod world {
    pub(super) use loom::sync::Mutex;
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64};
    use loom::sync::atomic::{Ordering, fence};
    pub(super) use loom::thread::yield_now;

    macro_rules! const_fn {
        ($visibility:vis fn $($rest:tt)+) => { $visibility fn $($rest)+ };
    }
    pub(super) use const_fn;

    pub(super) fn owner_fence() {
        fence(Ordering::SeqCst);
    }

    pub(super) fn revoker_fence() {
        fence(Ordering::SeqCst);
    }

    pub(super) fn can_be_biased() -> bool {
        true
    }
}

#[path = "protocol.rs"]
mod protocol;

use loom::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use self::protocol::Bias;
use crate::shared::NO_RUNTIME;

/// A count, and the lock that guards it. Loom reports two threads inside as a data race.
struct Count {
    bias: Bias,
    count: UnsafeCell<u32>,
    /// The word of a mutex, which the owner touches plainly.
    word: AtomicU32,
}

// SAFETY: that is what is checked.
unsafe impl Sync for Count {}

impl Count {
    fn increment(&self, caller: u64) {
        // SAFETY: as above.
        let more = || self.count.with_mut(|count| unsafe { *count += 1 });
        if self.bias.try_enter(caller) {
            more();
            self.bias.leave();
        } else {
            self.bias.with_lock(caller, more);
        }
    }

    /// Increments it with the mutex locked, as [`RawMutex`](crate::RawMutex) does, if that is free.
    fn increment_if_unlocked(&self, caller: u64) {
        let is_locked = if self.bias.try_enter(caller) {
            let is_free = self.word.load(Relaxed) == 0;
            if is_free {
                self.word.store(1, Relaxed);
            }
            self.bias.leave();
            is_free
        } else {
            self.bias.with_lock(caller, || ());
            self.bias.is_shared() && self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        };
        if !is_locked {
            return;
        }
        // SAFETY: as above.
        self.count.with_mut(|count| unsafe { *count += 1 });
        if self.bias.try_enter(caller) {
            self.word.store(0, Relaxed);
            self.bias.leave();
        } else {
            self.word.store(0, Release);
        }
    }
}

/// The owner enters twice, and these others once.
fn check(others: &'static [u64]) {
    loom::model(move || {
        let count = Arc::new(Count { bias: Bias::new(), count: UnsafeCell::new(0), word: AtomicU32::new(0) });
        let threads: Vec<_> = others
            .iter()
            .map(|caller| {
                let count = Arc::clone(&count);
                thread::spawn(move || count.increment(*caller))
            })
            .collect();
        (0..2).for_each(|_| count.increment(7));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: all others have ended.
        assert_eq!(count.count.with(|count| unsafe { *count }), 2 + others.len() as u32);
    });
}

#[test]
fn one_thread_at_a_time_is_inside_while_a_thread_revokes_the_bias() {
    check(&[NO_RUNTIME]);
}

#[test]
fn one_thread_at_a_time_has_a_mutex_while_its_bias_is_revoked() {
    loom::model(|| {
        let count = Arc::new(Count { bias: Bias::new(), count: UnsafeCell::new(0), word: AtomicU32::new(0) });
        count.increment(7);
        let other = {
            let count = Arc::clone(&count);
            thread::spawn(move || count.increment_if_unlocked(NO_RUNTIME))
        };
        count.increment_if_unlocked(7);
        other.join().unwrap();
    });
}

#[test]
fn one_thread_at_a_time_is_inside_while_another_runtime_revokes_the_bias() {
    check(&[9]);
}
