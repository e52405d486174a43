//! The reader-writer lock with real threads, by every waiting rule.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_wait::{RwLock, TimedOut};

use crate::costs::by;

/// A number of turns that takes little time even if more threads than CPUs never block: then each
/// turn may cost a timeslice.
fn turns(rule: WaitingRule) -> u32 {
    match rule {
        WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield => 20,
        _ => 1_000,
    }
}

#[test]
fn every_rule_admits_readers_together_and_writers_alone() {
    for entry in WAITING {
        let (lock, turns) = (RwLock::with(0, by(entry.example)), turns(entry.example));
        let (readers, writers) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for turn in 0..turns {
                        let mut count = lock.write();
                        assert_eq!(
                            writers.fetch_add(1, Relaxed) + readers.load(Relaxed),
                            0,
                            "another thread is inside"
                        );
                        *count += 1;
                        if turn % 64 == 0 {
                            std::thread::yield_now();
                        }
                        assert_eq!(
                            writers.fetch_sub(1, Relaxed) + readers.load(Relaxed),
                            1,
                            "another thread is inside"
                        );
                    }
                });
                scope.spawn(|| {
                    for turn in 0..turns {
                        let count = lock.read();
                        readers.fetch_add(1, Relaxed);
                        assert_eq!(writers.load(Relaxed), 0, "a writer is inside");
                        if turn % 64 == 0 {
                            std::thread::yield_now();
                        }
                        assert!(*count <= 3 * turns);
                        readers.fetch_sub(1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(lock.into_inner(), 3 * turns, "{}", entry.form);
    }
}

#[test]
fn readers_share_and_writers_do_not() {
    let lock = RwLock::new(1);
    let (one, other) = (lock.try_read().unwrap(), lock.try_read().unwrap());
    assert!(lock.try_write().is_none());
    assert_eq!(*one + *other, 2);
    drop((one, other));
    *lock.try_write().unwrap() += 1;
    let writer = lock.write();
    assert!(lock.try_read().is_none() && lock.try_write().is_none());
    assert!(format!("{lock:?}").starts_with("RwLock { value: <locked>"));
    drop(writer);
    assert!(format!("{lock:?}").starts_with("RwLock { value: 2"));
}

#[test]
fn a_waiting_writer_keeps_readers_out_until_it_ends_or_gives_up() {
    let lock = RwLock::with(0, by(WaitingRule::AlwaysBlock));
    let reader = lock.read();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| *lock.write() += 1);
        while lock.try_read().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(lock.read_timeout(Duration::from_micros(50)).err(), Some(TimedOut));
        assert!(!writer.is_finished());
        drop(reader);
        writer.join().unwrap();
    });
    let reader = lock.read();
    assert_eq!(lock.write_timeout(Duration::from_micros(50)).err(), Some(TimedOut));
    assert!(lock.try_read().is_some());
    drop(reader);
    assert_eq!(*lock.write(), 1);
}

#[test]
fn every_rule_times_out() {
    for entry in WAITING {
        let lock = RwLock::with((), by(entry.example));
        let writer = lock.write();
        assert_eq!(lock.read_timeout(Instant::now()).err(), Some(TimedOut), "{}", entry.form);
        assert_eq!(lock.write_timeout(Instant::now()).err(), Some(TimedOut), "{}", entry.form);
        drop(writer);
        assert!(lock.read_timeout(Instant::now()).is_ok());
        let reader = lock.read();
        assert_eq!(lock.write_timeout(Instant::now()).err(), Some(TimedOut), "{}", entry.form);
        assert!(lock.read_timeout(Instant::now()).is_ok());
        assert_eq!(lock.statistics().waits, 3);
        drop(reader);
        assert!(lock.write_timeout(Instant::now()).is_ok());
    }
}

#[test]
fn threads_that_give_up_leave_no_thread_asleep() {
    for entry in WAITING {
        let (lock, turns) = (RwLock::with(0_u32, by(entry.example)), turns(entry.example));
        std::thread::scope(|scope| {
            scope.spawn(|| (0..turns).for_each(|_| *lock.write() += 1));
            scope.spawn(|| (0..turns).for_each(|_| assert!(*lock.read() <= 2 * turns)));
            scope.spawn(|| {
                for turn in 0..turns {
                    drop(lock.read_timeout(Duration::from_micros((turn % 50).into())));
                }
            });
            scope.spawn(|| {
                for turn in 0..turns {
                    if let Ok(mut count) = lock.write_timeout(Duration::from_micros((turn % 50).into())) {
                        *count += 1;
                    }
                }
            });
        });
        assert!((turns..=2 * turns).contains(&*lock.write()), "{}", entry.form);
    }
}
