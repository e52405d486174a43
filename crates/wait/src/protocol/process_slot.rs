//! Who uses a place in shared memory: one word says which process, and whether it is gone.
//!
//! | word | state | who leaves it, and how |
//! |---|---|---|
//! | 0 | free | a process that takes the slot: exchanges 0 for itself |
//! | process | taken | its member: marks it as retired or gone, or frees it |
//! | process, retired | retired: nobody waits for the member any more | nobody |
//! | process, gone | gone, though it is still awaited | who has mended it: frees it |
//!
//! Where a member's death can be mended, who has mended it frees the slot, or takes it at once for itself.
//!
//! The word tells a process by its number and its start, so whoever is killed at any moment either has not taken the
//! place or can be told to be dead. Nothing else has to be written for it, and nothing can be left half done.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use policy::Span;
use sys::identity::Identity;

use crate::sync::AtomicU64;

/// How long a thread waits for members of other processes before it looks whether they live, each time.
pub(crate) const LIVENESS_INTERVAL: Span = Span::from_millis(100);

/// The kernel numbers processes by at most 22 bits.
const PID_BITS: u32 = 22;
/// At 100 ticks a second, 38 bits are 87 years.
const START_BITS: u32 = 38;
/// The process was in another PID namespace than the one that made the memory, or cannot tell, so its number says nothing there.
const FOREIGN: u64 = 1 << 60;
const GONE: u64 = 1 << 61;
const RETIRED: u64 = 1 << 62;

/// A place for one member.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct ProcessSlot(AtomicU64);

/// Who takes places: this process, as the others know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claimant(u64);

impl Claimant {
    /// The calling process, in memory made in this PID namespace.
    pub(crate) fn own(namespace: u64) -> Claimant {
        let foreign = if is_here(namespace) { 0 } else { FOREIGN };
        Claimant::of(Identity::own()).with(foreign)
    }

    fn of(Identity { pid, started }: Identity) -> Claimant {
        Claimant(u64::from(pid) & ((1 << PID_BITS) - 1) | (started & ((1 << START_BITS) - 1)) << PID_BITS)
    }

    fn with(self, mark: u64) -> Claimant {
        Claimant(self.0 | mark)
    }

    /// A process that there cannot be: the kernel gives no such number.
    #[cfg(test)]
    pub(crate) fn nobody() -> Claimant {
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
    pub(crate) fn free() -> ProcessSlot {
        ProcessSlot(AtomicU64::new(0))
    }

    /// Takes the place if it is free.
    pub(crate) fn claim(&self, claimant: Claimant) -> bool {
        self.0.compare_exchange(0, claimant.0, Acquire, Relaxed).is_ok()
    }

    /// Frees the slot, if this process has it: the child of a fork has its parent's memory, but not its slot.
    pub(crate) fn release(&self, claimant: Claimant) {
        self.leave(claimant, 0);
    }

    /// Says that the member is not awaited any more, if this process has the slot.
    pub(crate) fn retire(&self, claimant: Claimant) {
        self.leave(claimant, claimant.with(RETIRED).0);
    }

    /// Says that the member will not come again though it is awaited, if this process has the slot.
    pub(crate) fn abandon(&self, claimant: Claimant) {
        self.leave(claimant, claimant.with(GONE).0);
    }

    fn leave(&self, claimant: Claimant, then: u64) {
        if claimant.identity().pid == std::process::id() {
            let _ = self.0.compare_exchange(claimant.0, then, Release, Relaxed);
        }
    }

    /// The process whose member it was, where that is awaited and gone: it has said so, or its process has ended.
    ///
    /// Reads files below `/proc`. From another PID namespace than the member's, or one that cannot be told, nobody can be seen
    /// to have ended.
    pub(crate) fn lost_pid(&self, namespace: u64) -> Option<u32> {
        self.lost_claimant(namespace).map(|claimant| claimant.identity().pid)
    }

    /// Frees the place of a process that is gone, and returns its number, if this is the one who frees it.
    pub(crate) fn reclaim(&self, namespace: u64) -> Option<u32> {
        let claimant = self.lost_claimant(namespace)?;
        self.0.compare_exchange(claimant.0, 0, AcqRel, Relaxed).ok()?;
        Some(claimant.identity().pid)
    }

    /// Takes the place of a process that was found to be gone, if it still is that one's.
    pub(crate) fn take_over(&self, gone: Claimant, claimant: Claimant) -> bool {
        self.0.compare_exchange(gone.0, claimant.0, AcqRel, Relaxed).is_ok()
    }

    /// Writes down that a process is gone, over whatever is there: in a place that is nobody's but kept for this.
    pub(crate) fn record_lost(&self, gone: Claimant) {
        self.0.store(gone.with(GONE).0, Release);
    }

    /// As [`ProcessSlot::lost_pid`], but who it was for all purposes.
    pub(crate) fn lost_claimant(&self, namespace: u64) -> Option<Claimant> {
        let claimant = Claimant(self.0.load(Relaxed));
        if claimant.0 == 0 || claimant.0 & RETIRED != 0 {
            return None;
        }
        let can_be_seen = || claimant.0 & FOREIGN == 0 && is_here(namespace);
        let is_lost = claimant.0 & GONE != 0 || can_be_seen() && !claimant.identity().is_alive();
        is_lost.then_some(claimant)
    }
}

/// Whether numbers of processes mean in that PID namespace what they mean to this process.
fn is_here(namespace: u64) -> bool {
    are_the_same(namespace, sys::identity::pid_namespace())
}

/// Zero is that of a process that cannot tell, so it may be any.
fn are_the_same(one: u64, other: u64) -> bool {
    one != 0 && one == other
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_claimant_is_the_process_that_it_was_made_of() {
        let own = Identity::own();
        assert_eq!(Claimant::of(own).with(FOREIGN | GONE).identity(), own);
        let great = Identity { pid: (1 << PID_BITS) - 1, started: (1 << START_BITS) - 1 };
        assert_eq!(Claimant::of(great).with(FOREIGN).identity(), great);
    }

    #[test]
    fn a_place_is_taken_once_until_it_is_given_back() {
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
    fn who_has_retired_is_not_lost() {
        let slot = ProcessSlot::free();
        slot.claim(Claimant::nobody().retired());
        assert_eq!(slot.lost_pid(sys::identity::pid_namespace()), None);
    }

    #[test]
    fn only_the_process_that_has_a_place_leaves_it() {
        let namespace = sys::identity::pid_namespace();
        let (slot, other) = (ProcessSlot::free(), Claimant::of(Identity { pid: std::process::id() ^ 1, started: 1 }));
        assert!(slot.claim(other));
        slot.release(other);
        slot.release(Claimant::own(namespace));
        assert!(!slot.claim(other));
    }

    #[test]
    fn namespaces_that_nobody_can_tell_are_not_taken_for_the_same() {
        assert!(are_the_same(7, 7));
        assert!(!are_the_same(7, 8));
        assert!(!are_the_same(0, 0));
    }

    #[test]
    fn a_process_that_has_ended_is_seen_from_its_own_namespace_alone() {
        let namespace = sys::identity::pid_namespace();
        let (slot, foreign) = (ProcessSlot::free(), ProcessSlot::free());
        assert!(slot.claim(Claimant::nobody()));
        assert!(foreign.claim(Claimant::nobody().with(FOREIGN)));
        assert_eq!(slot.lost_pid(namespace), Some(Claimant::nobody().identity().pid));
        assert_eq!(slot.lost_pid(namespace + 1), None);
        assert_eq!(foreign.reclaim(namespace), None);
        assert_eq!(slot.reclaim(namespace), Some(Claimant::nobody().identity().pid));
        assert_eq!(slot.reclaim(namespace), None);
        assert!(slot.claim(Claimant::own(namespace)));
        assert_eq!(foreign.lost_pid(namespace), None);
    }
}
