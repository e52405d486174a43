//! What waiting rules need to know of this machine: measured or counted once for all objects of the process.

#[cfg(not(loom))]
use std::sync::OnceLock;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use policy::Instant;
#[cfg(not(loom))]
use policy::Span;
use policy::waiting::Costs;

/// How long a count of CPUs holds: affinity masks and quotas change while programs run, and counting takes some 50 us.
#[cfg(not(loom))]
const HOLDS: Span = Span::from_millis(100);

#[cfg(not(loom))]
static COSTS: OnceLock<Costs> = OnceLock::new();

/// What things cost here, measured by the first who asks.
///
/// Who asks meanwhile is told what they cost elsewhere: nobody waits for another's measurement, which in the child of a
/// fork would never come.
#[cfg(not(loom))]
pub(crate) fn costs() -> Costs {
    static MEASURED: AtomicBool = AtomicBool::new(false);
    if COSTS.get().is_none() && !MEASURED.swap(true, Relaxed) {
        let _ = COSTS.set(crate::calibrate::briefly());
    }
    known_costs()
}

/// What things cost here if somebody has measured that, else what they cost elsewhere.
#[cfg(not(loom))]
pub(crate) fn known_costs() -> Costs {
    COSTS.get().copied().unwrap_or(crate::calibrate::TYPICAL)
}

#[cfg(loom)]
pub(crate) fn known_costs() -> Costs {
    costs()
}

#[cfg(loom)]
pub(crate) fn costs() -> Costs {
    Costs::default()
}

/// How many CPUs the calling thread's process may use, as counted not long before `now`.
#[cfg(not(loom))]
pub(crate) fn cpus(now: Instant) -> u32 {
    /// When the count was made in units of 2^20 ns, and below in 16 bits what it came to; zero before the first.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.load(Relaxed);
    let cpus = count as u32 & 0xffff;
    let age = (now.as_nanos() >> 20).saturating_sub(count >> 16);
    if cpus != 0 && age < HOLDS.as_nanos() >> 20 {
        return cpus;
    }
    // One counts, and the others go on with the old count.
    let counted_by_me = (now.as_nanos() >> 20) << 16;
    if cpus != 0 && COUNT.compare_exchange(count, counted_by_me | u64::from(cpus), Relaxed, Relaxed).is_err() {
        return cpus;
    }
    let cpus = sys::cpus::usable().clamp(1, 0xffff);
    COUNT.store(counted_by_me | u64::from(cpus), Relaxed);
    cpus
}

#[cfg(loom)]
pub(crate) fn cpus(_: Instant) -> u32 {
    2
}
