//! Who uses a shared object: each process that has it open has a place there.
//!
//! Where no place is free, a newcomer takes that of a process that is dead. Before it does so, it writes down in one more place, kept for
//! this, that there was a death: so those who wait in vain are told of it as before, until somebody says that it is settled.

use sys::shared_memory::View;

use super::memory::MemoryError;
use crate::protocol::process_slot::{Claimant, ProcessSlot};

/// The processes that use an object, seen from one of them.
#[derive(Debug)]
pub(super) struct Participants {
    /// The last is nobody's.
    places: View<[ProcessSlot]>,
    namespace: u64,
    claimant: Claimant,
    /// Which place is this process's.
    own: u32,
}

impl Participants {
    /// The number of places that so many processes need.
    pub(super) fn places(processes: u32) -> usize {
        processes as usize + 1
    }

    /// Takes the first place that is free; where there is none, the first that its dead process does not need any more.
    ///
    /// `is_reusable` is asked about a place whose process is dead already: while it lives, it may do anything.
    pub(super) fn join(
        places: View<[ProcessSlot]>,
        namespace: u64,
        is_reusable: impl Fn(u32) -> bool,
    ) -> Result<Participants, MemoryError> {
        let claimant = Claimant::own(namespace);
        let Some((remembered, others)) = places.split_last() else { return Err(MemoryError::Full(0)) };
        let inherit = |at: u32, place: &ProcessSlot| {
            let Some(gone) = place.lost_claimant(namespace) else { return false };
            if !is_reusable(at) {
                return false;
            }
            // If this process is killed in between, the death is on record twice, which is better than nowhere.
            remembered.record_lost(gone);
            place.take_over(gone, claimant)
        };
        let find = |take: &dyn Fn(u32, &ProcessSlot) -> bool| (0..).zip(others).find(|&(at, place)| take(at, place));
        let own = find(&|_, place| place.claim(claimant)).or_else(|| find(&inherit)).map(|(own, _)| own);
        let own = own.ok_or(MemoryError::Full(others.len()))?;
        Ok(Participants { places, namespace, claimant, own })
    }

    /// The number of this process's place.
    pub(super) fn own(&self) -> u32 {
        self.own
    }

    /// A process that has ended with the object open, if there is one.
    pub(super) fn lost(&self) -> Option<u32> {
        self.places.iter().find_map(|place| place.lost_pid(self.namespace))
    }

    /// The process of that place, if it has ended with the object open.
    pub(super) fn lost_at(&self, place: u32) -> Option<u32> {
        self.places.get(place as usize)?.lost_pid(self.namespace)
    }

    /// Frees the places of all processes that have ended, and returns their numbers; of those whose places have been taken since, the
    /// last one's.
    pub(super) fn forget(&self) -> Vec<u32> {
        let mut gone: Vec<u32> = self.places.iter().filter_map(|place| place.reclaim(self.namespace)).collect();
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    /// Frees this process's place.
    pub(super) fn leave(&self) {
        if let Some(place) = self.places.get(self.own as usize) {
            place.release(self.claimant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Memory, ObjectKind, Purpose};
    use super::*;

    /// The places of so many processes.
    fn places(processes: u32) -> (Memory, View<[ProcessSlot]>) {
        let body = |processes| Participants::places(processes) * size_of::<ProcessSlot>();
        let purpose = Purpose { kind: ObjectKind::Semaphore, members: processes, detail: 0, body };
        let memory = Memory::create_nameless(purpose, &|_| Ok(())).unwrap();
        let places = memory.slice(0, Participants::places(processes)).unwrap();
        (memory, places)
    }

    #[test]
    fn whether_a_place_is_spared_is_asked_only_once_its_process_is_dead() {
        let (memory, seen) = places(1);
        assert!(seen[0].claim(Claimant::own(memory.namespace())));
        let join = |is_reusable: &dyn Fn(u32) -> bool| {
            Participants::join(memory.slice(0, 2).unwrap(), memory.namespace(), is_reusable).map(|joined| joined.own())
        };
        assert!(matches!(join(&|_| panic!("its process lives")), Err(MemoryError::Full(1))));
        seen[0].release(Claimant::own(memory.namespace()));
        assert!(seen[0].claim(Claimant::nobody()));
        assert!(matches!(join(&|_| false), Err(MemoryError::Full(1))));
        assert_eq!(seen[1].lost_pid(memory.namespace()), None);
        // Somebody else is faster.
        let faster =
            |_| seen[0].reclaim(memory.namespace()).is_some() && seen[0].claim(Claimant::own(memory.namespace()));
        assert!(matches!(join(&faster), Err(MemoryError::Full(1))));
    }

    #[test]
    fn a_death_is_remembered_when_its_place_is_taken() {
        let (memory, places) = places(1);
        let (namespace, dead) = (memory.namespace(), Claimant::nobody());
        assert!(places[0].claim(dead));
        let pid = places[0].lost_pid(namespace);
        let joined = Participants::join(places, namespace, |_| true).unwrap();
        assert_eq!((joined.own(), joined.lost()), (0, pid));
        assert_eq!(joined.forget(), Vec::from_iter(pid));
        assert_eq!((joined.lost(), joined.forget()), (None, vec![]));
    }
}
