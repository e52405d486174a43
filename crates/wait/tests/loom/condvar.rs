//! Loom models of the condition variable: all interleavings up to a bound on preemptions, all
//! values that a load may return.
//!
//! A lost wakeup is a deadlock, which loom reports.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use policy::Span;
use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::{Condvar, Mutex, Waiting};

const COSTS: Costs =
    Costs { cs: Span::from_micros(1), margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::from_millis(4) };

type Shared = (Mutex<u32>, Condvar);

/// Checks these threads in all interleavings with at most `preemptions` preemptions.
fn model<const N: usize>(rule: &'static str, preemptions: usize, parts: [fn(&Shared); N], last: fn(&Shared)) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(move || {
        let waiting = Waiting::by(rule.parse::<WaitingRule>().unwrap()).with_costs(COSTS).with_cpus(2);
        let shared = Arc::new((Mutex::with(0, waiting), Condvar::with(waiting)));
        let others = parts.map(|part| {
            let shared = shared.clone();
            thread::spawn(move || part(&shared))
        });
        last(&shared);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Waits for an item and takes it.
fn take((count, changed): &Shared) {
    *changed.wait_while(count.lock(), |count| *count == 0) -= 1;
}

/// The same, by a thread that no notification reaches before there is an item.
fn take_after_one_wakeup((count, changed): &Shared) {
    let mut count = count.lock();
    if *count == 0 {
        count = changed.wait(count);
        assert_eq!(*count, 1, "a spurious wakeup");
    }
    *count -= 1;
}

/// Gives two items, with a notification for each.
fn give_two_one_by_one((count, changed): &Shared) {
    for _ in 0..2 {
        *count.lock() += 1;
        changed.notify_one();
    }
}

fn give_two((count, changed): &Shared) {
    *count.lock() += 2;
    changed.notify_all();
}

#[test]
fn each_of_two_waiters_is_notified_of_its_item() {
    model("always-block", 3, [take, take], give_two_one_by_one);
    model("cs", 2, [take, take], give_two_one_by_one);
}

#[test]
fn one_notification_wakes_all() {
    model("always-block", 3, [take, take], give_two);
    model("cs", 2, [take, take], give_two);
}

#[test]
fn a_waiter_spins_and_then_blocks() {
    model("cs", 4, [take], |shared| {
        *shared.0.lock() += 1;
        shared.1.notify_one();
    });
}

/// Waits until a deadline that passes while it spins or as soon as it sleeps. Takes nothing.
fn give_up((count, changed): &Shared) {
    let (count, result) = changed.wait_timeout(count.lock(), Duration::ZERO);
    drop(count);
    // A notified thread that takes nothing passes the notification on.
    if !result.timed_out() {
        changed.notify_one();
    }
}

fn give_one((count, changed): &Shared) {
    *count.lock() += 1;
    changed.notify_one();
}

#[test]
fn a_waiter_that_gives_up_loses_no_notification_and_wakes_no_other() {
    model("always-block", 2, [take_after_one_wakeup, give_up], give_one);
    model("cs", 2, [take_after_one_wakeup, give_up], give_one);
}

#[test]
fn a_waiter_that_gives_up_before_all_are_notified_wakes_no_other() {
    let give_one_to_all = |(count, changed): &Shared| {
        *count.lock() += 1;
        changed.notify_all();
    };
    model("always-block", 2, [take_after_one_wakeup, give_up], give_one_to_all);
}
