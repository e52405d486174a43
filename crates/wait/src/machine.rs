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
    static COUNT: CachedNumber = CachedNumber::new();
    COUNT.get(now, HOLDS, || Some(sys::cpus::usable())).unwrap_or(1)
}

/// A number below 2^20 - 1 that is valid for a while: its time in units of 2^20 ns, and in the
/// lower 20 bits the number plus one. Zero before the first one.
#[cfg(not(loom))]
pub(crate) struct CachedNumber(AtomicU64);

#[cfg(not(loom))]
impl CachedNumber {
    pub(crate) const fn new() -> CachedNumber {
        CachedNumber(AtomicU64::new(0))
    }

    /// The number, which is valid for `holds`, to within a millisecond. One thread determines it
    /// again, and the others use the old one meanwhile. `None` if it cannot be determined.
    pub(crate) fn get(&self, now: Instant, holds: Span, determine: impl FnOnce() -> Option<u32>) -> Option<u32> {
        const NUMBER: u64 = (1 << 20) - 1;
        let last = self.0.load(Relaxed);
        let time = now.as_nanos() >> 20;
        let is_valid = time.saturating_sub(last >> 20) < holds.as_nanos() >> 20;
        let is_determined_elsewhere =
            || self.0.compare_exchange(last, time << 20 | last & NUMBER, Relaxed, Relaxed).is_err();
        if let Some(number) = (last & NUMBER).checked_sub(1)
            && (is_valid || is_determined_elsewhere())
        {
            return Some(number as u32);
        }
        let number = determine()?.min(NUMBER as u32 - 1);
        self.0.store(time << 20 | u64::from(number + 1), Relaxed);
        Some(number)
    }
}

#[cfg(loom)]
pub(crate) fn cpus(_: Instant) -> u32 {
    2
}
