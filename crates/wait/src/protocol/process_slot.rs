//! Slots for processes in shared memory: one word tells the process and whether it is lost.
//!
//! | word | state | transitions out |
//! |---|---|---|
//! | 0 | free | a process claims the slot: exchanges 0 for itself |
//! | process | claimed | its process marks it as retired or gone, or frees it |
//! | process, retired | no thread waits for the party any more | none |
//! | process, gone | gone, but still awaited | a process that handles the loss frees it |
//!
//! If a loss can be handled, the process that handles it frees the slot or claims it for itself.
//!
//! The word identifies a process by its PID and its start time. A process that is killed at any
//! moment either has not claimed it or can be recognized as dead. So nothing is left half done.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use sys::identity::Identity;

use crate::sync::AtomicU64;

/// The kernel limits PIDs to 22 bits.
const PID_BITS: u32 = 22;
/// At 100 ticks a second, 38 bits are 87 years.
const START_BITS: u32 = 38;
/// The process was in another PID namespace than the creator of the memory, or does not know its
/// namespace, so its PID means nothing there.
const FOREIGN: u64 = 1 << 60;
const GONE: u64 = 1 << 61;
const RETIRED: u64 = 1 << 62;

/// A slot for one process.
#[derive(Debug)]
#[repr(transparent)]
pub struct ProcessSlot(AtomicU64);

/// A process as the others identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant(u64);

impl Claimant {
    /// The calling process, in memory that was created in this PID namespace.
    pub fn own(namespace: u64) -> Claimant {
        let foreign = if is_here(namespace) { 0 } else { FOREIGN };
        Claimant::of(Identity::own()).with(foreign)
    }

    fn of(Identity { pid, started }: Identity) -> Claimant {
        Claimant(u64::from(pid) & ((1 << PID_BITS) - 1) | (started & ((1 << START_BITS) - 1)) << PID_BITS)
    }

    fn with(self, mark: u64) -> Claimant {
        Claimant(self.0 | mark)
    }

    /// A process that cannot exist: the kernel assigns no such PID.
    #[cfg(test)]
    pub(crate) fn ended() -> Claimant {
        Claimant::of(Identity { pid: (1 << PID_BITS) - 1, started: 1 })
    }

    #[cfg(test)]
    pub(crate) fn retired(self) -> Claimant {
        self.with(RETIRED)
    }

    fn identity(self) -> Identity {
        let pid = (self.0 & ((1 << PID_BITS) - 1)) as u32;
        Identity { pid, started: self.0 >> PID_BITS & ((1 << START_BITS) - 1) }
    }
}

impl ProcessSlot {
    /// A free slot, which is a word of zero.
    pub fn free() -> ProcessSlot {
        ProcessSlot(AtomicU64::new(0))
    }

    /// Claims the slot if it is free.
    pub fn claim(&self, claimant: Claimant) -> bool {
        self.0.compare_exchange(0, claimant.0, Acquire, Relaxed).is_ok()
    }

    /// Frees the slot if this process holds it, which the child of a fork does not.
    pub fn release(&self, claimant: Claimant) {
        self.leave(claimant, 0);
    }

    /// Marks the process as no longer awaited, if this process holds the slot.
    pub fn retire(&self, claimant: Claimant) {
        self.leave(claimant, claimant.with(RETIRED).0);
    }

    /// Marks the process as gone although it is awaited, if this process holds the slot.
    pub fn abandon(&self, claimant: Claimant) {
        self.leave(claimant, claimant.with(GONE).0);
    }

    fn leave(&self, claimant: Claimant, then: u64) {
        if claimant.identity().pid == std::process::id() {
            let _ = self.0.compare_exchange(claimant.0, then, Release, Relaxed);
        }
    }

    /// Whether no process has claimed the slot.
    pub fn is_free(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Whether its process is no longer awaited. If so, what it did before is visible.
    pub fn is_retired(&self) -> bool {
        self.0.load(Acquire) & RETIRED != 0
    }

    /// The PID of the process that holds the slot, if it means something in this process.
    pub fn pid(&self, namespace: u64) -> Option<u32> {
        let claimant = Claimant(self.0.load(Relaxed));
        (claimant.0 != 0 && claimant.0 & FOREIGN == 0 && is_here(namespace)).then(|| claimant.identity().pid)
    }

    /// The PID of the process if it is lost: awaited, but marked as gone, or ended.
    ///
    /// Reads files below `/proc`. `None` in another or an unknown PID namespace.
    pub fn lost_pid(&self, namespace: u64) -> Option<u32> {
        self.lost_claimant(namespace).map(|claimant| claimant.identity().pid)
    }

    /// Frees the slot if its process is lost. Returns the PID if this call has freed it.
    pub fn reclaim(&self, namespace: u64) -> Option<u32> {
        let claimant = self.lost_claimant(namespace)?;
        self.0.compare_exchange(claimant.0, 0, AcqRel, Relaxed).ok()?;
        Some(claimant.identity().pid)
    }

    /// Claims the slot of a lost process, if it still holds the slot.
    pub fn take_over(&self, gone: Claimant, claimant: Claimant) -> bool {
        self.0.compare_exchange(gone.0, claimant.0, AcqRel, Relaxed).is_ok()
    }

    /// Records a lost process in a slot that is reserved for this.
    pub fn record_lost(&self, gone: Claimant) {
        self.0.store(gone.with(GONE).0, Release);
    }

    /// Like [`ProcessSlot::lost_pid`], but returns the full identity.
    pub fn lost_claimant(&self, namespace: u64) -> Option<Claimant> {
        let claimant = Claimant(self.0.load(Relaxed));
        if claimant.0 == 0 || claimant.0 & RETIRED != 0 {
            return None;
        }
        let can_be_seen = || claimant.0 & FOREIGN == 0 && is_here(namespace);
        let is_lost = claimant.0 & GONE != 0 || can_be_seen() && !claimant.identity().is_alive();
        // It may have retired meanwhile, just before it ended.
        (is_lost && self.0.load(Acquire) == claimant.0).then_some(claimant)
    }
}

/// Whether this process is in that PID namespace.
fn is_here(namespace: u64) -> bool {
    are_same_namespace(namespace, sys::identity::pid_namespace())
}

/// Zero is an unknown namespace, which may be any.
fn are_same_namespace(one: u64, other: u64) -> bool {
    one != 0 && one == other
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_claimant_identifies_its_process() {
        let own = Identity::own();
        assert_eq!(Claimant::of(own).with(FOREIGN | GONE).identity(), own);
        let great = Identity { pid: (1 << PID_BITS) - 1, started: (1 << START_BITS) - 1 };
        assert_eq!(Claimant::of(great).with(FOREIGN).identity(), great);
    }

    #[test]
    fn a_slot_is_claimed_once_until_it_is_released() {
        let namespace = sys::identity::pid_namespace();
        let (slot, own) = (ProcessSlot::free(), Claimant::own(namespace));
        assert!(slot.claim(own));
        assert!(!slot.claim(own));
        assert_eq!(slot.lost_pid(namespace), None);
        slot.release(own);
        assert!(slot.claim(own));
        slot.abandon(own);
        assert!(!slot.claim(own));
        assert_eq!(slot.lost_pid(namespace), Some(std::process::id()));
    }

    #[test]
    fn a_retired_process_is_not_lost() {
        let slot = ProcessSlot::free();
        assert!(slot.is_free() && !slot.is_retired());
        slot.claim(Claimant::ended().retired());
        assert!(!slot.is_free() && slot.is_retired());
        assert_eq!(slot.lost_pid(sys::identity::pid_namespace()), None);
    }

    #[test]
    fn only_the_process_that_holds_a_slot_releases_it() {
        let namespace = sys::identity::pid_namespace();
        let (slot, other) = (ProcessSlot::free(), Claimant::of(Identity { pid: std::process::id() ^ 1, started: 1 }));
        assert!(slot.claim(other));
        slot.release(other);
        slot.release(Claimant::own(namespace));
        assert!(!slot.claim(other));
    }

    #[test]
    fn unknown_namespaces_are_not_the_same() {
        assert!(are_same_namespace(7, 7));
        assert!(!are_same_namespace(7, 8));
        assert!(!are_same_namespace(0, 0));
    }

    #[test]
    fn the_end_of_a_process_is_seen_in_its_own_namespace_only() {
        let namespace = sys::identity::pid_namespace();
        let (slot, foreign) = (ProcessSlot::free(), ProcessSlot::free());
        assert!(slot.claim(Claimant::ended()));
        assert!(foreign.claim(Claimant::ended().with(FOREIGN)));
        assert_eq!(slot.lost_pid(namespace), Some(Claimant::ended().identity().pid));
        assert_eq!(slot.lost_pid(namespace + 1), None);
        assert_eq!(foreign.reclaim(namespace), None);
        assert_eq!(slot.reclaim(namespace), Some(Claimant::ended().identity().pid));
        assert_eq!(slot.reclaim(namespace), None);
        assert!(slot.claim(Claimant::own(namespace)));
        assert_eq!(foreign.lost_pid(namespace), None);
    }
}
