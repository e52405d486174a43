//! What the loaded programs and libraries do with OpenMP that only the original barriers are fit for.
//!
//! It shows in the names of what they import. Programs of gcc and of clang may use one run-time system, and libraries of the one be called in
//! teams of the other: so what is found of one of them is held against all.

use std::ffi::CStr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};

use counters::Reason;

use crate::objects;

/// Beginnings of names. Tasks are made by reductions over tasks, too, and where work for another device is not waited for.
const SIGNS: [(&CStr, Reason); 10] = [
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

/// Of this process.
pub(crate) static FINDINGS: Findings = Findings::new();

/// What has been found out.
pub(crate) struct Findings {
    /// What was found, by bits. What has been found once stays so.
    found: AtomicU8,
    /// [`objects::loads`] when it was looked last, and one more.
    looked: AtomicU64,
    /// Of what texts it is known that they were loaded when it was looked: by address, each in the place that the address says.
    texts: [AtomicUsize; 64],
}

impl Findings {
    const fn new() -> Findings {
        Findings { found: AtomicU8::new(0), looked: AtomicU64::new(0), texts: [const { AtomicUsize::new(0) }; 64] }
    }

    /// Why a region whose text is at this address must have the original barriers, if so. Takes no memory.
    pub(crate) fn against(&self, text: usize) -> Option<Reason> {
        let place = &self.texts[(text >> 4) % self.texts.len()];
        if place.load(Relaxed) != text {
            self.look();
            place.store(text, Relaxed);
        }
        self.known()
    }

    /// What is known so far.
    pub(crate) fn known(&self) -> Option<Reason> {
        let found = self.found.load(Relaxed);
        [Reason::Cancellation, Reason::Tasks].into_iter().find(|&reason| found & bit(reason) != 0)
    }

    /// Whatever was found: here is something that does this.
    pub(crate) fn note(&self, reason: Reason) {
        if self.found.load(Relaxed) & bit(reason) == 0 {
            self.found.fetch_or(bit(reason), Relaxed);
        }
    }

    /// Looks, if anything was loaded since it last did. Takes no memory.
    pub(crate) fn look(&self) {
        let loads = objects::loads() + 1;
        if self.looked.load(Acquire) == loads {
            return;
        }
        objects::imports(|name| {
            let name = name.to_bytes();
            if let Some((_, reason)) = SIGNS.iter().find(|(sign, _)| name.starts_with(sign.to_bytes())) {
                self.note(*reason);
            }
        });
        self.looked.store(loads, Release);
    }
}

fn bit(reason: Reason) -> u8 {
    if reason == Reason::Tasks { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_stays() {
        let findings = Findings::new();
        assert_eq!(findings.against(16), None);
        findings.note(Reason::Tasks);
        assert_eq!(findings.against(16), Some(Reason::Tasks));
        findings.note(Reason::Cancellation);
        findings.note(Reason::Tasks);
        assert_eq!(findings.known(), Some(Reason::Cancellation));
    }

    #[test]
    fn it_is_looked_again_only_when_something_was_loaded() {
        let findings = Findings::new();
        findings.look();
        let looked = findings.looked.load(Relaxed);
        assert!(looked > 1);
        findings.look();
        assert!(findings.looked.load(Relaxed) >= looked);
    }
}
