//! The clock of turns.

use policy::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The time on `CLOCK_MONOTONIC`: the same for all processes, and no change of the time of day
/// affects it.
pub fn now() -> Instant {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock starts at zero and stays below 584 years.
    Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
