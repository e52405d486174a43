//! Mutexes.

use std::thread;

use counters::{Reason, WaitKind, Waits};
use libc::*;

use crate::{Shared, Test, waits};

pub(crate) const TESTS: &[Test] = &[
    ("one thread at a time holds a mutex", exclude, |entries| {
        let waits = waits(entries, WaitKind::Mutex);
        assert_eq!(waits.passed_through, []);
        assert!(waits.statistics.waits >= waits.statistics.spins);
    }),
    ("a recursive mutex is passed through", || pass_through(PTHREAD_MUTEX_RECURSIVE, 0), passed_through_one),
    (
        "an error-checking mutex is passed through",
        || pass_through(PTHREAD_MUTEX_ERRORCHECK, EDEADLK),
        passed_through_one,
    ),
    ("waits for a mutex are counted", contend, |entries| {
        let waits = waits(entries, WaitKind::Mutex).statistics;
        assert_eq!(waits.waits, 1);
        assert_eq!(waits.blocks == 0, waits.block_time.is_zero());
        assert!(waits.blocks + waits.spins + waits.yields > 0, "{waits:?}");
    }),
];

fn passed_through_one(entries: &[counters::ProcessReport]) {
    assert_eq!(waits(entries, WaitKind::Mutex).passed_through, [(Reason::MutexKind, 2)]);
}

type Mutex = Shared<pthread_mutex_t>;

fn lock(mutex: &Mutex) -> i32 {
    // SAFETY: it is initialized.
    unsafe { pthread_mutex_lock(mutex.get()) }
}

fn unlock(mutex: &Mutex) {
    // SAFETY: it is initialized.
    assert_eq!(unsafe { pthread_mutex_unlock(mutex.get()) }, 0);
}

fn exclude() {
    let (mutex, count) = (Mutex::new(PTHREAD_MUTEX_INITIALIZER), Shared::new(0));
    let work = || {
        for _ in 0..50_000 {
            assert_eq!(lock(&mutex), 0);
            // SAFETY: this thread holds the mutex.
            unsafe { *count.get() += 1 };
            unlock(&mutex);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    // SAFETY: the other threads have ended.
    assert_eq!(unsafe { *count.get() }, 200_000);
}

/// A mutex of this kind answers a second lock by its owner with `again`, and makes others wait.
fn pass_through(kind: i32, again: i32) {
    let mutex = Mutex::zeroed();
    // SAFETY: both are initialized before they are used.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(pthread_mutexattr_init(&raw mut attributes), 0);
        assert_eq!(pthread_mutexattr_settype(&raw mut attributes, kind), 0);
        assert_eq!(pthread_mutex_init(mutex.get(), &raw const attributes), 0);
    }
    assert_eq!(lock(&mutex), 0);
    assert_eq!(lock(&mutex), again);
    if again == 0 {
        unlock(&mutex);
    }
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_eq!(lock(&mutex), 0);
            unlock(&mutex);
        });
        await_counts(|waits| waits.passed_through == [(Reason::MutexKind, 2)]);
        unlock(&mutex);
        other.join().unwrap();
    });
}

fn contend() {
    let mutex = Mutex::new(PTHREAD_MUTEX_INITIALIZER);
    assert_eq!(lock(&mutex), 0);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert_eq!(lock(&mutex), 0);
            unlock(&mutex);
        });
        await_counts(|waits| waits.statistics.waits == 1);
        unlock(&mutex);
        other.join().unwrap();
    });
}

fn await_counts(condition: impl Fn(&Waits) -> bool) {
    crate::await_counts(WaitKind::Mutex, condition);
}
