//! Loom models of spinning waiters at another library's condition variable, here loom's. A lost
//! signal is a deadlock, which loom reports.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use rowlock_wait::spinning_waiters::SpinningWaiters;

struct Monitor {
    value: Mutex<u32>,
    changed: Condvar,
    waiters: SpinningWaiters,
}

impl Monitor {
    /// Waits at the condition variable like the preloaded library, with one poll.
    fn take(&self) {
        let mut value = self.value.lock().unwrap();
        while *value == 0 {
            let waiter = self.waiters.enter();
            drop(value);
            let signalled = waiter.is_signalled();
            value = self.value.lock().unwrap();
            if !signalled && !waiter.is_signalled() {
                value = self.changed.wait(value).unwrap();
            }
            waiter.leave();
        }
        *value -= 1;
    }

    /// Adds `many` to the value, and signals with the mutex held.
    fn give(&self, many: u32) {
        let mut value = self.value.lock().unwrap();
        *value += many;
        self.waiters.signal();
        if many == 1 { self.changed.notify_one() } else { self.changed.notify_all() }
    }
}

/// Checks these threads in all interleavings with at most three preemptions.
fn model<const N: usize>(parts: [fn(&Monitor); N], last: fn(&Monitor)) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(3);
    model.check(move || {
        let monitor =
            Arc::new(Monitor { value: Mutex::new(0), changed: Condvar::new(), waiters: SpinningWaiters::new() });
        let others = parts.map(|part| {
            let monitor = monitor.clone();
            thread::spawn(move || part(&monitor))
        });
        last(&monitor);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn a_spinning_waiter_gets_its_signal() {
    model([Monitor::take], |monitor| monitor.give(1));
}

#[test]
fn two_waiters_get_separate_signals() {
    model([Monitor::take, Monitor::take], |monitor| {
        monitor.give(1);
        monitor.give(1);
    });
}

#[test]
fn a_broadcast_reaches_all_waiters() {
    model([Monitor::take, Monitor::take], |monitor| monitor.give(2));
}

#[test]
fn a_waiter_spins_while_another_thread_signals_and_waits() {
    model([Monitor::take, |monitor| monitor.give(1)], |monitor| {
        monitor.give(1);
        monitor.take();
    });
}
