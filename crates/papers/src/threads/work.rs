//! Work: a loop that is counted in rounds, so that being preempted does not count as work.

use std::hint::black_box;
use std::time::Instant;

/// Computes for so many rounds.
#[inline(never)]
pub fn compute(rounds: u64) {
    let mut state = black_box(rounds);
    for _ in 0..rounds {
        // One multiplication after the other: a few cycles each, whatever the compiler makes of loops.
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    }
}

/// How many rounds take a microsecond on this machine: as many as in the best of some tries, since whatever disturbs makes it slower.
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
