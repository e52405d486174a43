//! Detects OpenMP features of the loaded programs and libraries that only the real barriers
//! support.
//!
//! The names of imported symbols show them. Programs of gcc and of clang may use one run-time
//! system, and teams of one compiler may call libraries of the other: so a feature found in any of
//! them counts for all.

use std::ffi::CStr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

use counters::Reason;

use crate::objects;

/// Prefixes of names. Reductions over tasks and asynchronous offloading create tasks too.
const PREFIXES: [(&CStr, Reason); 10] = [
    (c"GOMP_cancel", Reason::Cancellation),
    (c"GOMP_task", Reason::Tasks),
    (c"GOMP_target", Reason::Tasks),
    (c"GOMP_workshare_task", Reason::Tasks),
    (c"GOMP_parallel_reductions", Reason::Tasks),
    (c"__kmpc_cancel", Reason::Cancellation),
    (c"__kmpc_omp_task", Reason::Tasks),
    (c"__kmpc_omp_target", Reason::Tasks),
    (c"__kmpc_task", Reason::Tasks),
    (c"__tgt_target", Reason::Tasks),
];

/// The findings of this process.
pub(crate) static FINDINGS: Findings = Findings::new();

/// The features found so far.
pub(crate) struct Findings {
    /// The features found, as bits, which are never cleared.
    found: AtomicU8,
    /// [`objects::load_count`] plus one at the last scan.
    scanned: AtomicU64,
    /// Addresses of code known to have been loaded at the last scan, each at an index derived from
    /// the address.
    texts: [AtomicUsize; 64],
}

impl Findings {
    const fn new() -> Findings {
        Findings { found: AtomicU8::new(0), scanned: AtomicU64::new(0), texts: [const { AtomicUsize::new(0) }; 64] }
    }

    /// The reason why a region with code at this address must use the real barriers, if any. Does
    /// not allocate.
    pub(crate) fn reason_against(&self, text: usize) -> Option<Reason> {
        let place = &self.texts[(text >> 4) % self.texts.len()];
        if place.load(Relaxed) != text {
            self.scan();
            place.store(text, Relaxed);
        }
        self.known()
    }

    /// The reason known so far.
    pub(crate) fn known(&self) -> Option<Reason> {
        let found = self.found.load(Relaxed);
        [Reason::Cancellation, Reason::Tasks].into_iter().find(|&reason| found & bit(reason) != 0)
    }

    /// Records that a feature is used.
    pub(crate) fn record(&self, reason: Reason) {
        if self.found.load(Relaxed) & bit(reason) == 0 {
            self.found.fetch_or(bit(reason), Relaxed);
        }
    }

    /// Scans the imports, if any object was loaded since the last scan. Does not allocate.
    pub(crate) fn scan(&self) {
        let loads = objects::load_count() + 1;
        if self.scanned.load(Acquire) == loads {
            return;
        }
        objects::for_each_import(|name| {
            let name = name.to_bytes();
            if let Some((_, reason)) = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix.to_bytes())) {
                self.record(*reason);
            }
        });
        self.scanned.store(loads, Release);
    }
}

fn bit(reason: Reason) -> u8 {
    if reason == Reason::Tasks { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_permanent() {
        let findings = Findings::new();
        assert_eq!(findings.reason_against(16), None);
        findings.record(Reason::Tasks);
        assert_eq!(findings.reason_against(16), Some(Reason::Tasks));
        findings.record(Reason::Cancellation);
        findings.record(Reason::Tasks);
        assert_eq!(findings.known(), Some(Reason::Cancellation));
    }

    #[test]
    fn a_scan_is_repeated_only_after_a_load() {
        let findings = Findings::new();
        findings.scan();
        let scanned = findings.scanned.load(Relaxed);
        assert!(scanned > 1);
        findings.scan();
        assert!(findings.scanned.load(Relaxed) >= scanned);
    }
}
