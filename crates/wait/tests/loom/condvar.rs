//! The condition variable under loom: all interleavings up to a bound on preemptions, all values a load may return.
//!
//! A lost wakeup is a deadlock, which loom reports. In the models all threads share one bell.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;
use policy::Span;
use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::{Condvar, Mutex, Waiting};

const COSTS: Costs =
    Costs { cs: Span::from_micros(1), margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::from_millis(4) };

type Shared = (Mutex<u32>, Condvar);

/// Tries threads that do this in every way that needs at most `preemptions` preemptions.
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

/// Waits for something to take.
fn take((count, changed): &Shared) {
    *changed.wait_while(count.lock(), |count| *count == 0) -= 1;
}

/// Gives two, and wakes one for each.
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
fn each_of_two_is_notified_of_what_it_is_to_take() {
    model("always-block", 3, [take, take], give_two_one_by_one);
    model("cs", 2, [take, take], give_two_one_by_one);
}

#[test]
fn all_are_notified_at_once() {
    model("always-block", 3, [take, take], give_two);
    model("cs", 2, [take, take], give_two);
}

#[test]
fn one_spins_and_then_blocks() {
    model("cs", 4, [take], |shared| {
        *shared.0.lock() += 1;
        shared.1.notify_one();
    });
}

/// In a model no deadline passes while somebody sleeps, so who gives up has passed its deadline when it is woken, or while it
/// spins.
#[test]
fn one_that_gives_up_takes_no_notification_with_it() {
    let impatient = |(count, changed): &Shared| {
        let (count, result) = changed.wait_timeout(count.lock(), Duration::ZERO);
        drop(count);
        // Whoever is notified and takes nothing has to pass that on.
        if !result.timed_out() {
            changed.notify_one();
        }
    };
    model("cs", 2, [take, impatient], |(count, changed)| {
        *count.lock() += 1;
        changed.notify_one();
    });
}
