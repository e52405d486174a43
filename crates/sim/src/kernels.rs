//! The simulated kernels: one scheduler per module (`rr` is also `fifo`), and what several share.

mod affinity;
pub(crate) mod cells;
pub mod cfs;
mod domains;
pub mod eevdf;
pub mod feedback;
pub mod linux_2_4;
pub mod linux_o1;
mod load;
pub(crate) mod nice;
mod occupancy;
pub mod roster;
pub mod rr;
mod ticks;
mod wakeup;

use policy::{Instant, Span};

/// The occasion on which a CPU looks for threads to take from another (the kernel's `idle_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// A tick while it has threads.
    Busy,
    /// A tick while it is idle.
    Idle,
    /// It is about to become idle.
    NewlyIdle,
}

/// The next tick after `now`. All CPUs tick at multiples of the period.
fn next_tick(now: Instant, tick: Span) -> Instant {
    let tick = tick.as_nanos();
    Instant::from_nanos((now.as_nanos() / tick + 1).saturating_mul(tick))
}
