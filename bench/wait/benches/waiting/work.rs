//! The work between two waits: a number of iterations and not a time, so that time off the CPU does
//! not count.

use std::hint::black_box;
use std::time::Instant;

use policy::Span;

/// A chain of dependent operations, which can be neither vectorized nor skipped.
#[inline(never)]
pub(crate) fn chain(iterations: u64, mut x: u64) -> u64 {
    for _ in 0..iterations {
        x = step(x);
    }
    x
}

fn step(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ x << 17
}

/// The work of a thread: uniform between 0.75 and 1.25 of its mean, and the same sequence for every
/// arm. The peers in other languages use the same generator.
pub(crate) struct Worker(u64);

impl Worker {
    pub(crate) fn new(thread: u32) -> Worker {
        Worker(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(u64::from(thread) + 1))
    }

    /// Works for `mean` iterations on average.
    #[inline]
    pub(crate) fn work(&mut self, mean: f64) {
        self.0 = step(self.0);
        let share = 0.75 + 0.5 * ((self.0 >> 11) as f64 / (1_u64 << 53) as f64);
        black_box(chain((mean * share) as u64, self.0));
    }
}

/// The iterations of the chain per nanosecond on this machine.
#[derive(Clone, Copy)]
pub(crate) struct Speed(f64);

impl Speed {
    /// Takes the fastest and so least disturbed of many measurements.
    pub(crate) fn measure() -> Speed {
        const ITERATIONS: u64 = 20_000;
        let nanos = (0..400).map(|seed| {
            let start = Instant::now();
            black_box(chain(black_box(ITERATIONS), seed + 1));
            start.elapsed().as_nanos().max(1)
        });
        Speed(ITERATIONS as f64 / nanos.min().unwrap_or(1) as f64)
    }

    /// The number of iterations in this time.
    pub(crate) fn iterations(self, time: Span) -> f64 {
        self.0 * time.as_nanos() as f64
    }
}
