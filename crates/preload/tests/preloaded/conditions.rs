//! Condition variables.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use counters::{Reason, WaitKind};
use libc::*;

use crate::{Shared, Test, waits};

pub(crate) const TESTS: &[Test] = &[
    ("no signal with the mutex held is lost", || hand_over(true), counted),
    ("no signal without the mutex is lost", || hand_over(false), counted),
    ("a broadcast wakes all threads", broadcast, counted),
    ("waits with a special kind of mutex are passed through", recursive, |entries| {
        let waits = waits(entries, WaitKind::Condition);
        assert_eq!(waits.statistics.waits, 0);
        assert!(
            matches!(waits.passed_through[..], [(Reason::MutexKind, times)] if times > 0),
            "{:?}",
            waits.passed_through
        );
    }),
    ("waits at a shared condition variable are passed through", share, |entries| {
        let waits = waits(entries, WaitKind::Condition);
        assert_eq!(waits.statistics.waits, 0);
        assert!(
            matches!(waits.passed_through[..], [(Reason::ProcessShared, times)] if times > 0),
            "{:?}",
            waits.passed_through
        );
    }),
    ("a deadline that has passed ends a wait", pass, |entries| {
        assert_eq!(waits(entries, WaitKind::Condition).statistics.waits, 0);
    }),
];

fn counted(entries: &[counters::ProcessReport]) {
    let waits = waits(entries, WaitKind::Condition);
    assert_eq!(waits.passed_through, []);
    assert!(waits.statistics.blocks <= waits.statistics.waits + waits.statistics.spins, "{waits:?}");
    assert!(waits.statistics.waits > 0);
}

/// The usual use of condition variables.
struct Monitor<T> {
    mutex: Shared<pthread_mutex_t>,
    changed: Shared<pthread_cond_t>,
    value: Shared<T>,
}

impl<T> Monitor<T> {
    fn new(value: T) -> Monitor<T> {
        Monitor {
            mutex: Shared::new(PTHREAD_MUTEX_INITIALIZER),
            changed: Shared::new(PTHREAD_COND_INITIALIZER),
            value: Shared::new(value),
        }
    }

    fn lock(&self) {
        // SAFETY: it is initialized.
        assert_eq!(unsafe { pthread_mutex_lock(self.mutex.get()) }, 0);
    }

    fn unlock(&self) {
        // SAFETY: it is initialized.
        assert_eq!(unsafe { pthread_mutex_unlock(self.mutex.get()) }, 0);
    }

    /// Waits with the mutex until the value satisfies the condition.
    fn wait(&self, condition: impl Fn(&T) -> bool) {
        // SAFETY: this thread holds the mutex whenever it reads the value.
        while !condition(unsafe { &*self.value.get() }) {
            // SAFETY: both are initialized.
            assert_eq!(unsafe { pthread_cond_wait(self.changed.get(), self.mutex.get()) }, 0);
        }
    }

    fn signal(&self) {
        // SAFETY: it is initialized.
        assert_eq!(unsafe { pthread_cond_signal(self.changed.get()) }, 0);
    }
}

/// Two threads repeatedly hand over to each other.
fn hand_over(with_mutex: bool) {
    const TIMES: usize = 20_000;
    let monitors = [Monitor::new(0), Monitor::new(0)];
    let give = |to: &Monitor<usize>| {
        to.lock();
        // SAFETY: this thread holds the mutex.
        unsafe { *to.value.get() += 1 };
        if with_mutex {
            to.signal();
            to.unlock();
        } else {
            to.unlock();
            to.signal();
        }
    };
    let take = |from: &Monitor<usize>| {
        from.lock();
        from.wait(|&value| value > 0);
        // SAFETY: this thread holds the mutex.
        unsafe { *from.value.get() -= 1 };
        from.unlock();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..TIMES).for_each(|_| {
                take(&monitors[0]);
                give(&monitors[1]);
            });
        });
        (0..TIMES).for_each(|_| {
            give(&monitors[0]);
            take(&monitors[1]);
        });
    });
}

fn broadcast() {
    const TIMES: usize = 2000;
    let (round, done) = (Monitor::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for next in 1..=TIMES {
                    round.lock();
                    round.wait(|&round| round >= next);
                    round.unlock();
                    done.fetch_add(1, SeqCst);
                }
            });
        }
        for next in 1..=TIMES {
            round.lock();
            // SAFETY: this thread holds the mutex.
            unsafe { *round.value.get() = next };
            // SAFETY: it is initialized.
            assert_eq!(unsafe { pthread_cond_broadcast(round.changed.get()) }, 0);
            round.unlock();
            while done.load(SeqCst) < 3 * next {
                thread::yield_now();
            }
        }
    });
}

fn recursive() {
    let monitor = Monitor::new(false);
    // SAFETY: both are initialized before they are used.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(pthread_mutexattr_init(&raw mut attributes), 0);
        assert_eq!(pthread_mutexattr_settype(&raw mut attributes, PTHREAD_MUTEX_RECURSIVE), 0);
        assert_eq!(pthread_mutex_init(monitor.mutex.get(), &raw const attributes), 0);
    }
    be_signalled(&monitor);
}

fn share() {
    let monitor = Monitor::new(false);
    // SAFETY: both are initialized before they are used.
    unsafe {
        let mut attributes = std::mem::zeroed();
        assert_eq!(pthread_condattr_init(&raw mut attributes), 0);
        assert_eq!(pthread_condattr_setpshared(&raw mut attributes, PTHREAD_PROCESS_SHARED), 0);
        assert_eq!(pthread_cond_init(monitor.changed.get(), &raw const attributes), 0);
    }
    be_signalled(&monitor);
}

/// Waits for another thread, at least once.
fn be_signalled(monitor: &Monitor<bool>) {
    monitor.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            // It holds the mutex while the other thread waits.
            monitor.lock();
            // SAFETY: this thread holds the mutex.
            unsafe { *monitor.value.get() = true };
            monitor.unlock();
            monitor.signal();
        });
        monitor.wait(|&value| value);
    });
    monitor.unlock();
}

fn pass() {
    let monitor = Monitor::new(());
    monitor.lock();
    let past = timespec { tv_sec: 1, tv_nsec: 0 };
    // SAFETY: both are initialized, and this thread holds the mutex.
    let result = unsafe { pthread_cond_timedwait(monitor.changed.get(), monitor.mutex.get(), &raw const past) };
    assert_eq!(result, ETIMEDOUT);
    monitor.unlock();
}
