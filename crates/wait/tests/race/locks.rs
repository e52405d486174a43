//! What was done under a lock is visible to the next owner. Only the locks order the accesses to
//! plain memory.

use std::thread;
use std::time::Duration;

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_wait::{Condvar, Mutex, RwLock, Waiting};

use crate::costs::by;

const THREADS: usize = 3;

/// Lives as long as the program, so no thread is the last to drop it.
fn leak<T>(of: T) -> &'static T {
    Box::leak(Box::new(of))
}

/// Runs `work` on three threads, and joins them one by one.
fn run(work: impl Fn(usize) + Copy + Send + 'static) {
    for thread in [0, 1, 2].map(|number| thread::spawn(move || work(number))) {
        if thread.join().is_err() {
            panic!("a thread panicked");
        }
    }
}

fn add_under_a_mutex(waiting: Waiting, rounds: u64) {
    let sum = leak(Mutex::with(0, waiting));
    run(move |_| (0..rounds).for_each(|_| *sum.lock() += 1));
    run(move |_| {
        for round in 0..rounds {
            let timeout = Duration::from_micros(round % 20);
            *sum.lock_timeout(timeout).unwrap_or_else(|_| sum.lock()) += 1;
        }
    });
    assert_eq!(*sum.lock(), 2 * THREADS as u64 * rounds);
}

fn copy_under_a_reader_writer_lock(waiting: Waiting, rounds: u64) {
    let pair = leak(RwLock::with((0, 0), waiting));
    run(move |number| {
        for round in 0..rounds {
            if number == 0 || round % 16 == 0 {
                let mut pair = pair.write();
                *pair = (pair.0 + 1, pair.1 + 1);
            } else {
                let pair = pair.read();
                assert_eq!(pair.0, pair.1);
            }
        }
    });
}

fn take_turns_by_a_condition_variable(waiting: Waiting, rounds: u64) {
    let (turn, changed) = (leak(Mutex::with(0, waiting)), leak(Condvar::with(waiting)));
    run(move |number| {
        for _ in 0..rounds {
            let mut turn = changed.wait_while(turn.lock(), |turn| *turn % THREADS != number);
            *turn += 1;
            changed.notify_all();
        }
    });
    assert_eq!(*turn.lock() as u64, THREADS as u64 * rounds);
}

#[test]
fn the_next_owner_of_a_lock_sees_what_was_done_under_it() {
    for entry in WAITING {
        let never_blocks = matches!(entry.example, WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield);
        let rounds = if never_blocks { 20 } else { 500 };
        let waiting = by(entry.example).with_cpus(2);
        // Determine what a process determines once before there are threads: a race detector does
        // not see how the standard library shares it.
        let mutex = Mutex::with((), waiting);
        let held = mutex.lock();
        assert!(mutex.lock_timeout(Duration::ZERO).is_err());
        drop(held);
        add_under_a_mutex(waiting, rounds);
        copy_under_a_reader_writer_lock(waiting, rounds);
        take_turns_by_a_condition_variable(waiting, rounds);
    }
}
