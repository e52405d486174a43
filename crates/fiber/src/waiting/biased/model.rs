//! A loom model of the same code, with full fences on both sides.

mod world {
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

    pub(super) fn lock(word: &AtomicU32) {
        while word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            yield_now();
        }
    }

    pub(super) fn unlock(word: &AtomicU32) {
        word.store(0, Ordering::Release);
    }
}

#[path = "protocol.rs"]
mod protocol;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use self::protocol::{Bias, NO_RUNTIME};

/// A count, and the lock that guards it. Loom reports two threads inside as a data race.
struct Count {
    bias: Bias,
    count: UnsafeCell<u32>,
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
}

#[test]
fn one_thread_at_a_time_is_inside() {
    loom::model(|| {
        let count = Arc::new(Count { bias: Bias::new(), count: UnsafeCell::new(0) });
        let others = [NO_RUNTIME, 9].map(|caller| {
            let count = Arc::clone(&count);
            thread::spawn(move || count.increment(caller))
        });
        (0..2).for_each(|_| count.increment(7));
        others.into_iter().for_each(|other| other.join().unwrap());
        // SAFETY: all others have ended.
        assert_eq!(count.count.with(|count| unsafe { *count }), 4);
    });
}
