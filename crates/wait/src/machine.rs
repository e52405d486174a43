//! The costs, CPUs and load of this machine, determined once for all objects of the process. A loom
//! model has a machine with two CPUs, no costs and an unknown load.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use policy::waiting::Costs;
use policy::{Instant, Span};
use sys::load::ThreadCounts;

static COSTS: OnceLock<Costs> = OnceLock::new();

/// The costs of this machine, measured by the first caller.
///
/// Other callers meanwhile get typical costs. They never wait for the measurement of another
/// thread, which would never end in the child of a fork.
pub(crate) fn costs() -> Costs {
    static MEASURED: AtomicBool = AtomicBool::new(false);
    if !cfg!(loom) && COSTS.get().is_none() && !MEASURED.swap(true, Relaxed) {
        let _ = COSTS.set(crate::calibrate::briefly());
    }
    known_costs()
}

/// The costs of this machine if they have been measured, else typical costs.
pub(crate) fn known_costs() -> Costs {
    if cfg!(loom) {
        return Costs::default();
    }
    COSTS.get().copied().unwrap_or(crate::calibrate::TYPICAL)
}

/// A number below 2^20 - 1 that is valid for a while: its time in units of 2^20 ns, about a
/// millisecond, and in the lower 20 bits the number plus one. Zero before the first one.
struct CachedNumber(AtomicU64);

impl CachedNumber {
    const fn new() -> CachedNumber {
        CachedNumber(AtomicU64::new(0))
    }

    /// The number, if its age is less than this many units. Otherwise one thread determines it
    /// again, and the others use the old one meanwhile. `None` if it cannot be determined.
    fn get(&self, now: Instant, holds: u64, determine: impl FnOnce() -> Option<u32>) -> Option<u32> {
        const NUMBER: u64 = (1 << 20) - 1;
        let last = self.0.load(Relaxed);
        let time = now.as_nanos() >> 20;
        let is_valid = time.saturating_sub(last >> 20) < holds;
        let claim = || self.0.compare_exchange(last, time << 20 | last & NUMBER, Relaxed, Relaxed).is_ok();
        if let Some(number) = (last & NUMBER).checked_sub(1)
            && (is_valid || !claim())
        {
            return Some(number as u32);
        }
        let number = determine()?.min(NUMBER as u32 - 1);
        self.0.store(time << 20 | u64::from(number + 1), Relaxed);
        Some(number)
    }
}

/// The number of CPUs that the process may use, counted at most 100 ms before `now`: affinity
/// masks and quotas change while programs run, and counting takes some 50 us.
pub(crate) fn cpus(now: Instant) -> u32 {
    if cfg!(loom) {
        return 2;
    }
    static COUNT: CachedNumber = CachedNumber::new();
    const HOLDS: u64 = Span::from_millis(100).as_nanos() >> 20;
    COUNT.get(now, HOLDS, || Some(sys::cpus::usable())).unwrap_or(1)
}

/// The number of sleeping threads of this process whose rule needs the load.
static ASLEEP: AtomicU32 = AtomicU32::new(0);

/// Counts a thread as sleeping until dropped.
pub(crate) struct Asleep(());

impl Asleep {
    pub(crate) fn begin() -> Asleep {
        ASLEEP.fetch_add(1, Relaxed);
        Asleep(())
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        ASLEEP.fetch_sub(1, Relaxed);
    }
}

/// The load, for rules that depend on it: the number of threads of all programs that run or are
/// ready, read little more than a millisecond before `now`, plus the sleeping ones of this
/// process. `None` if the kernel does not report it.
///
/// Reading `/proc/loadavg` takes a microsecond. It excludes threads that sleep in a wait of
/// this crate, which compete again as soon as they are woken. So these are counted here.
pub(crate) fn load(now: Instant) -> Option<u32> {
    #[cfg(all(test, not(loom)))]
    if let Some(load) = crate::sync::script::load() {
        return Some(load);
    }
    if cfg!(loom) {
        return None;
    }
    static RUNNABLE: CachedNumber = CachedNumber::new();
    Some(RUNNABLE.get(now, 1, runnable)? + ASLEEP.load(Relaxed))
}

fn runnable() -> Option<u32> {
    /// Opened by the first caller. Others do not wait for it: see [`costs`].
    static LOADAVG: OnceLock<File> = OnceLock::new();
    static OPENED: AtomicBool = AtomicBool::new(false);
    if LOADAVG.get().is_none() && !OPENED.swap(true, Relaxed) {
        let _ = LOADAVG.set(File::open("/proc/loadavg").ok()?);
    }
    let file = LOADAVG.get()?;
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).ok()?;
    ThreadCounts::parse(&text[..length]).map(|threads| threads.runnable)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sleeping_threads_are_counted() {
        let now = crate::sync::now();
        // No time passes, so the file is not read again. No other thread sleeps by such a rule.
        let Some(before) = load(now) else { return };
        let asleep = [Asleep::begin(), Asleep::begin()];
        assert_eq!(load(now), Some(before + 2));
        drop(asleep);
        assert_eq!(load(now), Some(before));
    }
}
