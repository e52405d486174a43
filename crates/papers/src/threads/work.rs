//! Work: a loop with a fixed number of iterations, so that preemption does not count as work.

use std::hint::black_box;
use std::time::Instant;

/// Computes for this number of iterations.
#[inline(never)]
pub fn compute(rounds: u64) {
    let mut state = black_box(rounds);
    for _ in 0..rounds {
        // Each multiplication depends on the one before, so that an iteration takes a few cycles
        // however the compiler optimises loops.
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
}

/// The number of iterations in a microsecond on this machine: the largest of several measurements,
/// since disturbances only make it smaller.
pub fn rounds_per_us() -> f64 {
    const ROUNDS: u64 = 20_000;
    const TRIES: u32 = 200;
    let once = || {
        let started = Instant::now();
        compute(ROUNDS);
        started.elapsed().as_secs_f64() * 1e6
    };
    let best = (0..TRIES).map(|_| once()).fold(f64::INFINITY, f64::min);
    ROUNDS as f64 / best.max(1e-3)
}
