//! Threads that share a mutex of the standard library, and threads that share the CPUs after they
//! have waited.

use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::computation::{compute, passes};
use crate::endless::ThreadKind;
use crate::process::Measured;

/// The number of threads that share a mutex.
pub(crate) const FIBERS: usize = 8;

/// The number of threads that wait once and then compute.
pub(crate) const SPREAD: usize = 40;

/// How long a thread computes without the mutex, and with it.
const OUTSIDE: Duration = Duration::from_micros(100);
const INSIDE: Duration = Duration::from_micros(20);

/// Threads that compute with and without a mutex in turn. Those that run into the mutex must not
/// stop others: then all would soon wait for it.
pub(crate) fn convoy<K: ThreadKind>(kind: K, rounds: usize) -> Measured {
    let (outside, inside) = (passes(OUTSIDE), passes(INSIDE));
    let sum = Arc::new(Mutex::new(0_u64));
    time(kind, FIBERS, || {
        let sum = Arc::clone(&sum);
        move || {
            for _ in 0..rounds {
                black_box(compute(black_box(outside)));
                let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                *sum = sum.wrapping_add(compute(black_box(inside)));
            }
        }
    })
}

/// Threads that wait once, so that they have started before they compute.
pub(crate) fn spread<K: ThreadKind>(kind: K, milliseconds: usize) -> Measured {
    let passes = passes(Duration::from_millis(milliseconds as u64));
    time(kind, SPREAD, || {
        move || {
            K::sleep(Duration::from_millis(1));
            black_box(compute(black_box(passes)));
        }
    })
}

/// How long these threads take together, in milliseconds.
fn time<K: ThreadKind, F: FnOnce() + Send + 'static>(kind: K, threads: usize, make: impl Fn() -> F) -> Measured {
    let threads = (0..threads).map(|_| Box::new(make()) as Box<dyn FnOnce() + Send>).collect();
    let began = Instant::now();
    kind.run(threads);
    vec![("took".to_owned(), began.elapsed().as_secs_f64() * 1e3)]
}
