//! The condition variable with real threads, by every waiting rule.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use policy::table::WAITING;
use policy::waiting::WaitingRule;
use rowlock_wait::{Condvar, Mutex};

use crate::costs::by;

/// A queue with so little room that all threads have to wait for others.
struct Queue {
    values: Mutex<VecDeque<u32>>,
    not_empty: Condvar,
    not_full: Condvar,
}

const ROOM: usize = 2;

impl Queue {
    fn by(rule: WaitingRule) -> Queue {
        Queue {
            values: Mutex::with(VecDeque::new(), by(rule)),
            not_empty: Condvar::with(by(rule)),
            not_full: Condvar::with(by(rule)),
        }
    }

    fn push(&self, value: u32) {
        let mut values = self.not_full.wait_while(self.values.lock(), |values| values.len() == ROOM);
        values.push_back(value);
        drop(values);
        self.not_empty.notify_one();
    }

    fn pop(&self) -> Option<u32> {
        let mut values = self.not_empty.wait_while(self.values.lock(), |values| values.is_empty());
        let value = values.pop_front();
        self.not_full.notify_one();
        value
    }
}

#[test]
fn every_rule_delivers_every_value_once() {
    for entry in WAITING {
        let values = match entry.example {
            WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield => 20,
            _ => 500,
        };
        // More threads than eventcounts.
        for threads in [1, 2, 20] {
            if threads > 2 && matches!(entry.example, WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield) {
                continue;
            }
            let queue = Queue::by(entry.example);
            let sum: u32 = std::thread::scope(|scope| {
                (0..threads).for_each(|_| {
                    scope.spawn(|| (1..=values).for_each(|value| queue.push(value)));
                });
                let readers: Vec<_> = (0..threads)
                    .map(|_| scope.spawn(|| (0..values).filter_map(|_| queue.pop()).sum::<u32>()))
                    .collect();
                readers.into_iter().map(|reader| reader.join().unwrap()).sum()
            });
            assert_eq!(sum, threads * values * (values + 1) / 2, "{}", entry.form);
        }
    }
}

#[test]
fn one_notification_wakes_all_waiters() {
    for entry in WAITING {
        let (shared, changed) = (Mutex::with((0_u64, false), by(entry.example)), Condvar::with(by(entry.example)));
        let threads = if matches!(entry.example, WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield) { 2 } else { 20 };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut guard = shared.lock();
                    guard.0 += 1;
                    drop(changed.wait_while(guard, |(_, open)| !*open));
                });
            }
            while shared.lock().0 < threads {
                std::thread::yield_now();
            }
            shared.lock().1 = true;
            changed.notify_all();
        });
        assert!(changed.statistics().waits >= threads, "{}", entry.form);
    }
}

#[test]
fn a_notification_without_waiters_is_not_kept() {
    let (mutex, changed) = (Mutex::new(()), Condvar::new());
    changed.notify_one();
    changed.notify_all();
    let (_guard, result) = changed.wait_timeout(mutex.lock(), Duration::from_micros(50));
    assert!(result.timed_out());
}

#[test]
fn every_rule_times_out_and_reacquires_the_mutex() {
    for entry in WAITING {
        let (mutex, changed) = (Mutex::with(1, by(entry.example)), Condvar::with(by(entry.example)));
        let (guard, result) = changed.wait_timeout(mutex.lock(), Instant::now());
        assert!(result.timed_out() && mutex.is_locked(), "{}", entry.form);
        let (guard, result) = changed.wait_timeout_while(guard, Duration::from_micros(50), |value| *value == 1);
        assert!(result.timed_out() && mutex.is_locked(), "{}", entry.form);
        let (_guard, result) = changed.wait_timeout_while(guard, Duration::ZERO, |value| *value == 2);
        assert!(!result.timed_out());
    }
}

#[test]
fn a_waiter_that_gives_up_wakes_no_other() {
    const WAITERS: u32 = 20;
    let (shared, changed) = (Mutex::new((0, false)), Condvar::new());
    let returns = std::thread::scope(|scope| {
        let wait = || {
            let mut guard = shared.lock();
            guard.0 += 1;
            let mut returns = 0;
            while !guard.1 {
                guard = changed.wait(guard);
                returns += 1;
            }
            returns
        };
        let waiters = [(); WAITERS as usize].map(|()| scope.spawn(wait));
        while shared.lock().0 < WAITERS {
            std::thread::yield_now();
        }
        for _ in 0..200 {
            let (_guard, result) = changed.wait_timeout(shared.lock(), Duration::ZERO);
            assert!(result.timed_out());
        }
        shared.lock().1 = true;
        changed.notify_all();
        waiters.map(|waiter| waiter.join().unwrap())
    });
    assert_eq!(returns, [1; WAITERS as usize], "each returns once, after its notification");
}

#[test]
fn waiters_that_give_up_lose_no_notification() {
    for entry in WAITING {
        let queue = Queue::by(entry.example);
        let values = match entry.example {
            WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield => 20,
            _ => 1_000,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..values).for_each(|value| queue.push(value)));
            scope.spawn(|| (0..values).for_each(|value| assert_eq!(queue.pop(), Some(value))));
            for _ in 0..2 {
                // These threads wait for both, and never push or pop.
                scope.spawn(|| {
                    for turn in 0..values {
                        let timeout = Duration::from_micros((turn % 50).into());
                        let (guard, result) = queue.not_empty.wait_timeout(queue.values.lock(), timeout);
                        drop(guard);
                        if !result.timed_out() {
                            queue.not_empty.notify_one();
                        }
                        let (guard, result) = queue.not_full.wait_timeout(queue.values.lock(), timeout);
                        drop(guard);
                        if !result.timed_out() {
                            queue.not_full.notify_one();
                        }
                    }
                });
            }
        });
        assert!(queue.values.lock().is_empty(), "{}", entry.form);
    }
}
