//! A run with a lock: threads acquire it repeatedly, and work in between, until the time is over.

use std::hint::black_box;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use policy::waiting::Costs;
use serde::{Deserialize, Serialize};

use crate::arms::Arm;
use crate::order::{Error, waiting};
use crate::pthread;
use crate::runs::Outcome;
use crate::work::Worker;

/// An order for threads that contend for a lock.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Turns {
    pub(crate) threads: u32,
    /// The mean work with the lock held.
    pub(crate) inside: f64,
    /// The mean work before acquiring it again.
    pub(crate) outside: f64,
    pub(crate) seconds: f64,
    /// `None` if the processes measure the costs of the machine themselves, as programs do.
    pub(crate) costs: Option<Costs>,
}

/// A lock around a value.
trait Lock: Sync {
    fn with(&self, inside: impl FnOnce(&mut u64));
}

impl Lock for pthread::Mutex {
    #[inline]
    fn with(&self, inside: impl FnOnce(&mut u64)) {
        pthread::Mutex::with(self, inside);
    }
}

impl Lock for std::sync::Mutex<u64> {
    #[inline]
    fn with(&self, inside: impl FnOnce(&mut u64)) {
        inside(&mut self.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Lock for parking_lot::Mutex<u64> {
    #[inline]
    fn with(&self, inside: impl FnOnce(&mut u64)) {
        inside(&mut self.lock());
    }
}

impl Lock for rowlock_wait::Mutex<u64> {
    #[inline]
    fn with(&self, inside: impl FnOnce(&mut u64)) {
        inside(&mut self.lock());
    }
}

/// Carries out the order with an arm.
pub(crate) fn run(arm: Arm, order: &Turns) -> Result<Outcome, Error> {
    match arm {
        Arm::Pthread => Ok(take_turns(&pthread::Mutex::new(), order)),
        Arm::Standard => Ok(take_turns(&std::sync::Mutex::new(0), order)),
        Arm::ParkingLot => Ok(take_turns(&parking_lot::Mutex::new(0), order)),
        Arm::Rule(rule) => {
            let lock = rowlock_wait::Mutex::with(0, waiting(rule, order.costs));
            Ok(take_turns(&lock, order).with(&lock.statistics()))
        }
        Arm::Hurdles | Arm::Stack | Arm::Peer(..) => Err(Error::Refused("this arm has no lock")),
    }
}

fn take_turns(lock: &impl Lock, order: &Turns) -> Outcome {
    if order.threads == 1 && order.inside == 0.0 && order.outside == 0.0 {
        uncontended(lock, order)
    } else {
        contended(lock, order)
    }
}

/// A single thread that only acquires and releases, which measures the lock itself.
///
/// Another thread sleeps meanwhile, since the C library omits atomic operations in single-threaded
/// processes.
fn uncontended(lock: &impl Lock, order: &Turns) -> Outcome {
    /// The number of turns between two readings of the clock, which makes its cost negligible.
    const BATCH: u64 = 10_000;
    let (awake, asleep) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || asleep.recv());
        let (start, duration) = (Instant::now(), Duration::from_secs_f64(order.seconds));
        let mut count = 0;
        while start.elapsed() < duration {
            for _ in 0..BATCH {
                lock.with(|value| *value = black_box(*value).wrapping_add(1));
            }
            count += BATCH;
        }
        let seconds = start.elapsed().as_secs_f64();
        drop(awake);
        Outcome { count, seconds, ..Outcome::default() }
    })
}

/// The turns of a thread so far, on its own pair of cache lines.
#[repr(align(128))]
struct Count(AtomicU64);

/// Several threads, and an additional one that sleeps until it reads the counters. A working thread
/// could be starved and would end the run late.
fn contended(lock: &impl Lock, order: &Turns) -> Outcome {
    let over = std::sync::atomic::AtomicBool::new(false);
    let counts: Vec<Count> = (0..order.threads).map(|_| Count(AtomicU64::new(0))).collect();
    let begin = std::sync::Barrier::new(order.threads as usize + 1);
    let labour = |number: u32, turns: &AtomicU64| {
        let mut worker = Worker::new(number);
        begin.wait();
        while !over.load(Relaxed) {
            lock.with(|value| {
                *value = value.wrapping_add(1);
                worker.work(order.inside);
            });
            turns.store(turns.load(Relaxed) + 1, Relaxed);
            worker.work(order.outside);
        }
    };
    let read = || counts.iter().map(|count| count.0.load(Relaxed)).collect::<Vec<u64>>();
    let (before, after, took) = std::thread::scope(|scope| {
        for (number, count) in (0..).zip(&counts) {
            scope.spawn(move || labour(number, &count.0));
        }
        begin.wait();
        let (before, start) = (read(), Instant::now());
        std::thread::sleep(Duration::from_secs_f64(order.seconds));
        let (after, took) = (read(), start.elapsed());
        over.store(true, Relaxed);
        (before, after, took)
    });
    let turns: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let count: u64 = turns.iter().sum();
    let mean = count as f64 / turns.len() as f64;
    let least = turns.iter().min().map(|&least| least as f64 / mean);
    Outcome {
        count,
        seconds: took.as_secs_f64(),
        least_share: least.filter(|share| share.is_finite()),
        ..Outcome::default()
    }
}
