//! What was done before a signal is visible to the threads that it releases. Only the signals order
//! the accesses to plain memory.
#![allow(unsafe_code, reason = "threads access plain memory in turn")]

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::Duration;

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_wait::{Event, Latch, Parker, Reset, Semaphore, Waiting, word};

use crate::costs::by;

/// The number of turns, in plain memory for the thread whose turn it is.
struct Turns(UnsafeCell<u64>);

// SAFETY: only the thread whose turn it is accesses it, which the tests check.
unsafe impl Sync for Turns {}

impl Turns {
    fn new() -> &'static Turns {
        leak(Turns(UnsafeCell::new(0)))
    }

    fn take(&self) {
        // SAFETY: it is the caller's turn, so no other thread accesses it.
        unsafe { *self.0.get() += 1 };
    }

    fn assert_count(&self, expected: u64) {
        // SAFETY: all threads that have taken turns have signalled the caller or were joined.
        assert_eq!(unsafe { *self.0.get() }, expected);
    }
}

/// Lives as long as the program, so no thread is the last to drop it.
fn leak<T>(of: T) -> &'static T {
    Box::leak(Box::new(of))
}

/// Runs the threads until they end.
fn run<const N: usize>(threads: [Box<dyn FnOnce() + Send>; N]) {
    for thread in threads.map(thread::spawn) {
        if thread.join().is_err() {
            panic!("a thread panicked");
        }
    }
}

fn take_turns_by_a_semaphore(waiting: Waiting, rounds: u64) {
    let (semaphore, turns) = (leak(Semaphore::with(1, waiting)), Turns::new());
    run([0, 1, 2].map(|_| -> Box<dyn FnOnce() + Send> {
        Box::new(move || {
            for _ in 0..rounds {
                semaphore.down();
                turns.take();
                assert_eq!(semaphore.up(), Ok(1));
            }
        })
    }));
    turns.assert_count(3 * rounds);
}

fn take_turns_by_an_event(waiting: Waiting, rounds: u64) {
    let (event, turns) = (leak(Event::with(Reset::Auto, waiting)), Turns::new());
    event.set();
    run([0, 1, 2].map(|_| -> Box<dyn FnOnce() + Send> {
        Box::new(move || {
            for _ in 0..rounds {
                event.wait();
                turns.take();
                event.set();
            }
        })
    }));
    turns.assert_count(3 * rounds);
}

fn start_by_an_event_and_end_by_a_latch(waiting: Waiting, rounds: u64) {
    for _ in 0..rounds.min(50) {
        let (start, end) = (leak(Event::with(Reset::Manual, waiting)), leak(Latch::with(2, waiting)));
        let all = Turns::new();
        let each = [Turns::new(), Turns::new()];
        let work = |number: usize| -> Box<dyn FnOnce() + Send> {
            Box::new(move || {
                start.wait();
                all.assert_count(1);
                each[number].take();
                end.arrive_and_wait();
                each.iter().for_each(|turns| turns.assert_count(1));
            })
        };
        let observer = Box::new(move || {
            all.take();
            start.set();
            end.wait();
            each.iter().for_each(|turns| turns.assert_count(1));
        });
        run([work(0), work(1), observer]);
    }
}

fn take_turns_by_parkers(waiting: Waiting, rounds: u64) {
    let turns = Turns::new();
    let parkers = [0, 1].map(|_| Parker::with(waiting));
    let [first, second] = [0, 1].map(|number: usize| parkers[number].unparker());
    first.unpark();
    let [one, two] = parkers;
    run([(one, second), (two, first)].map(|(parker, other)| -> Box<dyn FnOnce() + Send> {
        Box::new(move || {
            for _ in 0..rounds {
                parker.park();
                turns.take();
                other.unpark();
            }
            // No thread is the last to drop what they share.
            std::mem::forget((parker, other));
        })
    }));
    turns.assert_count(2 * rounds);
}

fn take_turns_by_a_word(waiting: Waiting, rounds: u64) {
    let (word, turns) = (leak(AtomicU32::new(0)), Turns::new());
    run([0, 1].map(|me| -> Box<dyn FnOnce() + Send> {
        Box::new(move || {
            for round in 0..rounds as u32 {
                let mut seen = word.load(Acquire);
                while seen != 2 * round + me {
                    seen = word::wait(word, seen, &waiting);
                }
                turns.take();
                word.store(seen + 1, Release);
                word::wake_one(word);
            }
        })
    }));
    turns.assert_count(2 * rounds);
}

#[test]
fn a_waiter_sees_what_was_done_before_it_was_signalled() {
    for entry in WAITING {
        // A rule that never gives up its CPU is slow with more threads than CPUs.
        let rounds =
            if matches!(entry.example, WaitingRule::AlwaysSpin | WaitingRule::OwnerRunning) { 20 } else { 500 };
        let waiting = by(entry.example).with_cpus(2);
        // Determine what a process determines once before there are threads: a race detector does
        // not see how the standard library shares it.
        assert!(Semaphore::with(0, waiting).down_timeout(Duration::ZERO).is_err());
        take_turns_by_a_semaphore(waiting, rounds);
        take_turns_by_an_event(waiting, rounds);
        start_by_an_event_and_end_by_a_latch(waiting, rounds);
        take_turns_by_parkers(waiting, rounds);
        take_turns_by_a_word(waiting, rounds);
    }
}
