//! Loom models of the reader-writer lock: all interleavings up to a bound on preemptions, all
//! values that a load may return.
//!
//! A lost wakeup is a deadlock, which loom reports. If a reader is inside with a writer, or a
//! happens-before edge is missing, loom reports a race on a cell.

use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use policy::Span;
use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::{RwLock, Waiting};

const COSTS: Costs =
    Costs { cs: Span::from_micros(1), margin: Span::ZERO, lone_yield: Span::ZERO, tick: Span::from_millis(4) };

type Plain = UnsafeCell<()>;

fn lock(rule: &str) -> RwLock<Plain> {
    let rule: WaitingRule = rule.parse().unwrap();
    RwLock::with(UnsafeCell::new(()), Waiting::by(rule).with_costs(COSTS).with_cpus(2))
}

fn write(lock: &RwLock<Plain>) {
    lock.write().with_mut(|_| ());
}

fn read(lock: &RwLock<Plain>) {
    lock.read().with(|_| ());
}

/// Checks three threads in all interleavings with at most `preemptions` preemptions.
fn model(rule: &'static str, preemptions: usize, parts: [fn(&RwLock<Plain>); 3]) {
    let mut model = loom::model::Builder::new();
    (model.preemption_bound, model.max_duration) = testing::depth(preemptions);
    model.check(move || {
        let lock = Arc::new(lock(rule));
        let others = [parts[1], parts[2]].map(|part| {
            let lock = lock.clone();
            thread::spawn(move || part(&lock))
        });
        parts[0](&lock);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn a_writer_keeps_two_readers_out() {
    model("always-block", 2, [write, read, read]);
    model("cs", 1, [write, read, read]);
}

#[test]
fn two_writers_and_a_reader_take_turns() {
    model("always-block", 2, [write, write, read]);
    model("cs", 1, [write, write, read]);
}

#[test]
fn readers_return_while_a_writer_waits() {
    let reads_twice = |lock: &RwLock<Plain>| (0..2).for_each(|_| read(lock));
    model("always-block", 1, [write, reads_twice, read]);
}

/// In a model no deadline passes while a thread sleeps. So the deadline of a writer that gives up
/// passes when it is woken or while it spins.
#[test]
fn a_writer_that_gives_up_admits_the_readers() {
    let impatient = |lock: &RwLock<Plain>| {
        if let Ok(plain) = lock.write_timeout(Duration::ZERO) {
            plain.with_mut(|_| ());
        }
    };
    model("cs", 1, [impatient, read, read]);
    model("cs", 3, [impatient, |lock| (0..2).for_each(|_| read(lock)), |_| ()]);
    model("cs", 1, [impatient, write, read]);
}

#[test]
fn a_reader_that_gives_up_loses_no_wakeup() {
    let impatient = |lock: &RwLock<Plain>| {
        if let Ok(plain) = lock.read_timeout(Duration::ZERO) {
            plain.with(|_| ());
        }
    };
    let writes_twice = |lock: &RwLock<Plain>| (0..2).for_each(|_| write(lock));
    model("always-block", 3, [impatient, writes_twice, write]);
    model("cs", 1, [impatient, write, read]);
}
