//! Loom models of spinning waiters at another library's condition variable. The original is
//! modelled like that of the C library: a waiter registers before it releases the mutex, and a
//! thread that destroys the condition variable waits until no waiter is registered. A lost signal
//! is a deadlock, which loom reports; so is a thread that signals and waits forever.

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicU64};
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread;
use rowlock_wait::spinning_waiters::{Announcement, SpinningWaiters};

/// The condition variable of another library.
struct Original {
    inner: Mutex<Inner>,
    woken: Condvar,
    released: Condvar,
}

struct Inner {
    /// Waiters that still use this memory.
    registered: u32,
    asleep: u32,
    /// Signals that no waiter has consumed.
    signals: u32,
    is_destroyed: bool,
}

impl Original {
    fn new() -> Original {
        let inner = Inner { registered: 0, asleep: 0, signals: 0, is_destroyed: false };
        Original { inner: Mutex::new(inner), woken: Condvar::new(), released: Condvar::new() }
    }

    /// Every use of its memory.
    fn touch(&self) -> MutexGuard<'_, Inner> {
        let inner = self.inner.lock().unwrap();
        assert!(!inner.is_destroyed, "a destroyed condition variable is used");
        inner
    }

    fn signal(&self, all: bool) {
        let mut inner = self.touch();
        let unsignalled = inner.asleep - inner.signals;
        inner.signals += if all { unsignalled } else { unsignalled.min(1) };
        self.woken.notify_all();
    }

    fn destroy(&self) {
        let mut inner = self.touch();
        while inner.registered > 0 {
            inner = self.released.wait(inner).unwrap();
        }
        inner.is_destroyed = true;
    }
}

struct Monitor {
    value: Mutex<u32>,
    /// The thread that holds the mutex, as the mutex records it. Zero if none does.
    owner: AtomicU64,
    changed: Original,
    waiters: SpinningWaiters,
    /// Whether the mutex may be read for an announcement of this thread. When the thread has left,
    /// it may destroy the mutex.
    is_readable: [AtomicBool; 3],
    /// Whether threads that signal wait for no other, and deadlines pass at once.
    gives_up: bool,
}

impl Monitor {
    fn lock(&self, thread: u64) -> MutexGuard<'_, u32> {
        let value = self.value.lock().unwrap();
        self.owner.store(thread, Relaxed);
        value
    }

    fn unlock(&self, value: MutexGuard<'_, u32>) {
        // A mutex with an acquiring reader of this word. For the C library, the preloaded library
        // reads two words.
        self.owner.store(0, Release);
        drop(value);
    }

    /// Blocks at the original. Returns whether it was signalled before the deadline, too.
    fn block<'a>(&'a self, thread: u64, value: MutexGuard<'a, u32>) -> (bool, MutexGuard<'a, u32>) {
        let mut inner = self.changed.touch();
        inner.registered += 1;
        inner.asleep += 1;
        drop(inner);
        self.unlock(value);
        let mut inner = self.changed.touch();
        while inner.signals == 0 && !self.gives_up {
            inner = self.changed.woken.wait(inner).unwrap();
        }
        let is_signalled = inner.signals > 0;
        inner.signals -= u32::from(is_signalled);
        inner.asleep -= 1;
        inner.registered -= 1;
        self.changed.released.notify_all();
        drop(inner);
        if !is_signalled {
            thread::yield_now();
        }
        (is_signalled, self.lock(thread))
    }

    /// Waits at the condition variable like the preloaded library, with one poll.
    fn take(&self, thread: u64) {
        let mut value = self.lock(thread);
        while *value == 0 {
            let Some(waiter) = self.waiters.enter() else {
                value = self.block(thread, value).1;
                continue;
            };
            self.unlock(value);
            let signalled = waiter.is_signalled();
            value = self.lock(thread);
            let is_readable = &self.is_readable[thread as usize];
            is_readable.store(true, Relaxed);
            let mut is_over = signalled;
            while !is_over && !waiter.announce(Announcement { condition: 1, mutex: 1, owner: thread }) {
                (is_over, value) = self.block(thread, value);
            }
            waiter.leave(|| {
                thread::yield_now();
                true
            });
            is_readable.store(false, Relaxed);
        }
        *value -= 1;
        self.unlock(value);
    }

    fn signal(&self, all: bool) {
        let has_released = |seen: &Announcement| {
            assert!(self.is_readable[seen.owner as usize].load(Relaxed), "the mutex of a waiter that has left is read");
            self.owner.load(Acquire) != seen.owner
        };
        self.waiters.signal(1, has_released, || {
            thread::yield_now();
            !self.gives_up
        });
        self.changed.signal(all);
    }

    /// Adds `many` to the value, and signals with or without the mutex.
    fn give(&self, many: u32, with_mutex: bool) {
        let mut value = self.lock(9);
        *value += many;
        if with_mutex {
            self.signal(many > 1);
            self.unlock(value);
        } else {
            self.unlock(value);
            self.signal(many > 1);
        }
    }
}

/// Checks these threads in all interleavings with at most this many preemptions.
fn model<const N: usize>(preemptions: usize, parts: [fn(&Monitor); N], last: fn(&Arc<Monitor>)) {
    model_with(false, preemptions, parts, last);
}

/// As [`model`], with threads that give up or not.
fn model_with<const N: usize>(gives_up: bool, preemptions: usize, parts: [fn(&Monitor); N], last: fn(&Arc<Monitor>)) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(move || {
        let monitor = Arc::new(Monitor {
            value: Mutex::new(0),
            owner: AtomicU64::new(0),
            changed: Original::new(),
            waiters: SpinningWaiters::new(),
            is_readable: [(); 3].map(|()| AtomicBool::new(false)),
            gives_up,
        });
        let others = parts.map(|part| {
            let monitor = monitor.clone();
            thread::spawn(move || part(&monitor))
        });
        last(&monitor);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// As [`model`], for a waiter and one other thread. The waiter begins, so that the bound leaves one
/// preemption for each of its steps before it blocks.
fn model_waiter(other: fn(&Monitor)) {
    model(3, [other], |monitor| monitor.take(1));
}

#[test]
fn a_spinning_waiter_gets_its_signal() {
    model_waiter(|monitor| monitor.give(1, true));
}

#[test]
fn a_spinning_waiter_gets_a_signal_without_the_mutex() {
    model_waiter(|monitor| monitor.give(1, false));
}

#[test]
fn two_waiters_get_separate_signals() {
    model(2, [|monitor| monitor.take(1), |monitor| monitor.take(2)], |monitor| {
        monitor.give(1, true);
        monitor.give(1, false);
    });
}

#[test]
fn a_broadcast_reaches_all_waiters() {
    model(2, [|monitor| monitor.give(2, false), |monitor| monitor.take(2)], |monitor| monitor.take(1));
}

#[test]
fn a_waiter_spins_while_another_thread_signals_and_waits() {
    model(2, [|monitor| monitor.take(1), |monitor| monitor.give(1, false)], |monitor| {
        monitor.give(1, true);
        monitor.take(2);
    });
}

/// The waiter checks the value before it waits. So it has been signalled.
#[test]
fn a_condition_variable_is_destroyed_after_a_signal_without_the_mutex() {
    model_waiter(|monitor| {
        monitor.give(1, false);
        monitor.changed.destroy();
    });
}

#[test]
fn a_condition_variable_is_destroyed_after_a_broadcast_without_the_mutex() {
    model(
        2,
        [
            |monitor| {
                monitor.give(2, false);
                monitor.changed.destroy();
            },
            |monitor| monitor.take(2),
        ],
        |monitor| monitor.take(1),
    );
}

/// The waiter cannot acquire the mutex while the original waits for it.
#[test]
fn a_condition_variable_is_destroyed_with_the_mutex_held() {
    model_waiter(|monitor| {
        let mut value = monitor.lock(9);
        *value += 1;
        monitor.signal(true);
        monitor.changed.destroy();
        monitor.unlock(value);
    });
}

/// A waiter that one signal woke leaves while the second signal reads its announcement.
#[test]
fn a_waiter_that_leaves_outlives_all_that_read_its_announcement() {
    model(3, [|monitor| monitor.give(1, false), |monitor| monitor.signal(true)], |monitor| monitor.take(1));
}

/// A signalling thread does not wait for a waiter that is queued, although another thread holds the
/// mutex until the signal is over.
#[test]
fn a_signal_is_not_held_up_by_a_mutex_that_waits_for_it() {
    model(2, [|monitor| monitor.take(1)], |monitor| {
        let mut value = monitor.lock(9);
        *value += 1;
        let signalling = monitor.clone();
        thread::spawn(move || signalling.signal(true)).join().unwrap();
        monitor.unlock(value);
    });
}

/// As if the waiter had been stopped for long before it is queued.
#[test]
fn a_waiter_notices_a_signal_that_was_not_delivered() {
    model_with(true, 3, [|monitor| monitor.give(1, false)], |monitor| monitor.take(1));
}
