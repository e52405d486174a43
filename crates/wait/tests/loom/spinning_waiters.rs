//! Looking out for signals to somebody else's condition variable, under loom: that of loom's own. A lost signal is a deadlock, which loom
//! reports.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use rowlock_wait::spinning_waiters::SpinningWaiters;

struct Monitor {
    value: Mutex<u32>,
    changed: Condvar,
    waiters: SpinningWaiters,
}

impl Monitor {
    /// As who is preloaded waits at a condition variable, looking once.
    fn take(&self) {
        let mut value = self.value.lock().unwrap();
        while *value == 0 {
            let waiter = self.waiters.enter();
            drop(value);
            let came = waiter.is_signalled();
            value = self.value.lock().unwrap();
            if !came && !waiter.is_signalled() {
                value = self.changed.wait(value).unwrap();
            }
            waiter.leave();
        }
        *value -= 1;
    }

    /// Gives so many, and signals with the mutex.
    fn give(&self, many: u32) {
        let mut value = self.value.lock().unwrap();
        *value += many;
        self.waiters.signal();
        if many == 1 { self.changed.notify_one() } else { self.changed.notify_all() }
    }
}

/// Tries threads that do this in every way that needs at most three preemptions.
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
fn who_looks_gets_what_is_given() {
    model([Monitor::take], |monitor| monitor.give(1));
}

#[test]
fn each_of_two_gets_what_is_given_one_by_one() {
    model([Monitor::take, Monitor::take], |monitor| {
        monitor.give(1);
        monitor.give(1);
    });
}

#[test]
fn all_get_what_is_given_at_once() {
    model([Monitor::take, Monitor::take], |monitor| monitor.give(2));
}

#[test]
fn one_looks_while_another_gives_and_takes() {
    model([Monitor::take, |monitor| monitor.give(1)], |monitor| {
        monitor.give(1);
        monitor.take();
    });
}
