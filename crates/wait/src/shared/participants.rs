//! The processes that use a shared object: each process that has it open holds a slot.
//!
//! If no slot is free, a new process takes over that of a dead one. Before that it records the
//! death in an extra slot that is reserved for this. So waiters get an error until it is handled.

use sys::shared_memory::View;

use super::memory::MemoryError;
use crate::protocol::process_slot::{Claimant, ProcessSlot};

/// The processes that use an object, as seen by one of them.
#[derive(Debug)]
pub(super) struct Participants {
    /// The last slot is reserved for recording a death.
    slots: View<[ProcessSlot]>,
    namespace: u64,
    claimant: Claimant,
    /// The number of this process's slot.
    pub(super) own: u32,
}

impl Participants {
    /// The number of slots for this number of processes.
    pub(super) fn slots(processes: u32) -> usize {
        processes as usize + 1
    }

    /// Claims the first free slot, or else takes over the first that a dead process does not need.
    ///
    /// `is_reusable` is called only for slots of dead processes: a living one may do anything.
    pub(super) fn join(
        slots: View<[ProcessSlot]>,
        namespace: u64,
        is_reusable: impl Fn(u32) -> bool,
    ) -> Result<Participants, MemoryError> {
        let claimant = Claimant::own(namespace);
        let Some((reserved, others)) = slots.split_last() else { return Err(MemoryError::Full(0)) };
        let inherit = |at: u32, slot: &ProcessSlot| {
            let Some(gone) = slot.lost_claimant(namespace) else { return false };
            if !is_reusable(at) {
                return false;
            }
            // A death that is recorded twice, if this process is killed here, is better than none.
            reserved.record_lost(gone);
            slot.take_over(gone, claimant)
        };
        let find = |take: &dyn Fn(u32, &ProcessSlot) -> bool| (0..).zip(others).find(|&(at, slot)| take(at, slot));
        let own = find(&|_, slot| slot.claim(claimant)).or_else(|| find(&inherit)).map(|(own, _)| own);
        let own = own.ok_or(MemoryError::Full(others.len()))?;
        Ok(Participants { slots, namespace, claimant, own })
    }

    /// A process that has ended with the object open, if there is one.
    pub(super) fn lost(&self) -> Option<u32> {
        self.slots.iter().find_map(|slot| slot.lost_pid(self.namespace))
    }

    /// The process of this slot, if it has ended with the object open.
    pub(super) fn lost_at(&self, slot: u32) -> Option<u32> {
        self.slots.get(slot as usize)?.lost_pid(self.namespace)
    }

    /// Frees the slots of all processes that have ended. Returns their PIDs. Of those whose slots
    /// have been taken over, only the last one is included.
    pub(super) fn forget(&self) -> Vec<u32> {
        let mut gone: Vec<u32> = self.slots.iter().filter_map(|slot| slot.reclaim(self.namespace)).collect();
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    /// Frees this process's slot.
    pub(super) fn leave(&self) {
        if let Some(slot) = self.slots.get(self.own as usize) {
            slot.release(self.claimant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Memory, ObjectKind, Purpose};
    use super::*;

    /// The slots for this number of processes.
    fn slots(processes: u32) -> (Memory, View<[ProcessSlot]>) {
        let body = |processes| Participants::slots(processes) * size_of::<ProcessSlot>();
        let purpose = Purpose { kind: ObjectKind::Semaphore, members: processes, detail: 0, body };
        let memory = Memory::create(None, purpose, |_| Ok(())).unwrap();
        let slots = memory.slice(0, Participants::slots(processes)).unwrap();
        (memory, slots)
    }

    #[test]
    fn only_the_slot_of_a_dead_process_is_tested_for_reuse() {
        let (memory, seen) = slots(1);
        assert!(seen[0].claim(Claimant::own(memory.namespace)));
        let join = |is_reusable: &dyn Fn(u32) -> bool| {
            Participants::join(memory.slice(0, 2).unwrap(), memory.namespace, is_reusable).map(|joined| joined.own)
        };
        assert!(matches!(join(&|_| panic!("its process lives")), Err(MemoryError::Full(1))));
        seen[0].release(Claimant::own(memory.namespace));
        assert!(seen[0].claim(Claimant::ended()));
        assert!(matches!(join(&|_| false), Err(MemoryError::Full(1))));
        assert_eq!(seen[1].lost_pid(memory.namespace), None);
        // Another process is faster.
        let faster = |_| seen[0].reclaim(memory.namespace).is_some() && seen[0].claim(Claimant::own(memory.namespace));
        assert!(matches!(join(&faster), Err(MemoryError::Full(1))));
    }

    #[test]
    fn a_death_is_recorded_when_its_slot_is_taken_over() {
        let (memory, slots) = slots(1);
        let (namespace, dead) = (memory.namespace, Claimant::ended());
        assert!(slots[0].claim(dead));
        let pid = slots[0].lost_pid(namespace);
        let joined = Participants::join(slots, namespace, |_| true).unwrap();
        assert_eq!((joined.own, joined.lost()), (0, pid));
        assert_eq!(joined.forget(), Vec::from_iter(pid));
        assert_eq!((joined.lost(), joined.forget()), (None, vec![]));
    }
}
