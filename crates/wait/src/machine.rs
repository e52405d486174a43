//! The costs and CPUs of this machine, measured or counted once for all objects of the process.

#[cfg(not(loom))]
use std::sync::OnceLock;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use policy::Instant;
#[cfg(not(loom))]
use policy::Span;
use policy::waiting::Costs;

/// How long a count of CPUs is valid: affinity masks and quotas change while programs run, and
/// counting takes some 50 us.
#[cfg(not(loom))]
const HOLDS: Span = Span::from_millis(100);

#[cfg(not(loom))]
static COSTS: OnceLock<Costs> = OnceLock::new();

/// The costs of this machine, measured by the first caller.
///
/// Other callers meanwhile get typical costs. They never wait for the measurement of another
/// thread, which would never end in the child of a fork.
#[cfg(not(loom))]
pub(crate) fn costs() -> Costs {
    static MEASURED: AtomicBool = AtomicBool::new(false);
    if COSTS.get().is_none() && !MEASURED.swap(true, Relaxed) {
        let _ = COSTS.set(crate::calibrate::briefly());
    }
    known_costs()
}

/// The costs of this machine if they have been measured, else typical costs.
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

/// The number of CPUs that the process may use, as counted shortly before `now`.
#[cfg(not(loom))]
pub(crate) fn cpus(now: Instant) -> u32 {
    /// The time of the count in units of 2^20 ns, and in the lower 16 bits its result. Zero before
    /// the first one.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.load(Relaxed);
    let cpus = count as u32 & 0xffff;
    let age = (now.as_nanos() >> 20).saturating_sub(count >> 16);
    if cpus != 0 && age < HOLDS.as_nanos() >> 20 {
        return cpus;
    }
    // One thread counts, and the others use the old count.
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
