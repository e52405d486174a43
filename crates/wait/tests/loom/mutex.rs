//! Loom models of the mutex: all interleavings up to a bound on preemptions, all values that a load
//! may return.
//!
//! A lost wakeup is a deadlock, which loom reports. If the mutex has two owners at a time, or a
//! happens-before edge between two owners is missing, loom reports a race on a cell.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use policy::Span;
use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::{Mutex, Waiting};

const COSTS: Costs =
    Costs { cs: Span::from_micros(1), margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::from_millis(4) };

type Plain = UnsafeCell<u32>;

fn mutex(rule: &str) -> Mutex<Plain> {
    let rule: WaitingRule = rule.parse().unwrap();
    Mutex::with(UnsafeCell::new(0), Waiting::by(rule).with_costs(COSTS).with_cpus(2))
}

fn add_one(plain: &Plain) {
    // SAFETY: loom reports concurrent accesses.
    #[allow(unsafe_code)]
    plain.with_mut(|count| unsafe { *count += 1 });
}

/// The number of additions.
fn sum(mutex: &Mutex<Plain>) -> u32 {
    // SAFETY: as above.
    #[allow(unsafe_code)]
    mutex.lock().with(|count| unsafe { *count })
}

/// Checks `run` in all interleavings with at most `preemptions` preemptions.
fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(run);
}

/// Checks `threads` threads that acquire the mutex `turns` times each.
fn take_turns(rule: &'static str, threads: u32, turns: u32, preemptions: usize) {
    model(preemptions, move || {
        let mutex = Arc::new(mutex(rule));
        let work = move |mutex: &Mutex<Plain>| (0..turns).for_each(|_| add_one(&mutex.lock()));
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let mutex = mutex.clone();
                thread::spawn(move || work(&mutex))
            })
            .collect();
        work(&mutex);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(sum(&mutex), threads * turns);
    });
}

#[test]
fn two_blocking_threads_take_turns() {
    take_turns("always-block", 2, 3, 5);
}

#[test]
fn three_blocking_threads_take_turns() {
    take_turns("always-block", 3, 2, 3);
}

#[test]
fn two_threads_spin_and_then_block() {
    take_turns("cs", 2, 3, 4);
}

#[test]
fn three_threads_spin_and_then_block() {
    take_turns("cs", 3, 1, 3);
    take_turns("cs", 3, 2, 2);
}

#[test]
fn three_threads_spin_again_after_they_were_woken() {
    take_turns("adaptive", 3, 1, 2);
}

#[test]
fn two_threads_spin_until_they_acquire_it() {
    take_turns("always-spin", 2, 2, 5);
}

/// In a model no deadline passes while a thread sleeps. So the deadline of the thread that gives up
/// passes when it is woken or while it spins.
#[test]
fn a_thread_that_gives_up_loses_no_wakeup() {
    for rule in ["always-block", "cs"] {
        model(3, move || {
            let mutex = Arc::new(mutex(rule));
            let impatient = {
                let mutex = mutex.clone();
                thread::spawn(move || mutex.lock_timeout(Duration::ZERO).map(|plain| add_one(&plain)).map_or(0, |()| 1))
            };
            let patient = {
                let mutex = mutex.clone();
                thread::spawn(move || add_one(&mutex.lock()))
            };
            add_one(&mutex.lock());
            patient.join().unwrap();
            let added = impatient.join().unwrap();
            assert_eq!(sum(&mutex), 2 + added);
        });
    }
}
