//! Who uses a shared object: each process that has it open has a place there.
//!
//! Where no place is free, a newcomer takes that of a process that is dead. Before it does so, it writes down in one more place, kept for
//! this, that there was a death: so those who wait in vain are told of it as before, until somebody says that it is settled.

use sys::shared_memory::View;

use super::memory::MemoryError;
use crate::member::{Claimant, Place};

/// The processes that use an object, seen from one of them.
#[derive(Debug)]
pub(super) struct Participants {
    /// The last is nobody's.
    places: View<[Place]>,
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
    /// `spares` is asked about a place whose process is dead already: while it lives, it may do anything.
    pub(super) fn join(
        places: View<[Place]>,
        namespace: u64,
        spares: impl Fn(u32) -> bool,
    ) -> Result<Participants, MemoryError> {
        let claimant = Claimant::own(namespace);
        let Some((remembered, others)) = places.split_last() else { return Err(MemoryError::Full(0)) };
        let inherit = |at: u32, place: &Place| {
            let Some(gone) = place.lost_claimant(namespace) else { return false };
            if !spares(at) {
                return false;
            }
            // If this process is killed in between, the death is on record twice, which is better than nowhere.
            remembered.remember(gone);
            place.take_over(gone, claimant)
        };
        let find = |take: &dyn Fn(u32, &Place) -> bool| (0..).zip(others).find(|&(at, place)| take(at, place));
        let own = find(&|_, place| place.take(claimant)).or_else(|| find(&inherit)).map(|(own, _)| own);
        let own = own.ok_or(MemoryError::Full(others.len()))?;
        Ok(Participants { places, namespace, claimant, own })
    }

    /// The number of this process's place.
    pub(super) fn own(&self) -> u32 {
        self.own
    }

    /// A process that has ended with the object open, if there is one.
    pub(super) fn lost(&self) -> Option<u32> {
        self.places.iter().find_map(|place| place.lost(self.namespace))
    }

    /// The process of that place, if it has ended with the object open.
    pub(super) fn lost_at(&self, place: u32) -> Option<u32> {
        self.places.get(place as usize)?.lost(self.namespace)
    }

    /// Frees the places of all processes that have ended, and returns their numbers; of those whose places have been taken since, the
    /// last one's.
    pub(super) fn forget(&self) -> Vec<u32> {
        let mut gone: Vec<u32> = self.places.iter().filter_map(|place| place.forget(self.namespace)).collect();
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    /// Frees this process's place.
    pub(super) fn leave(&self) {
        if let Some(place) = self.places.get(self.own as usize) {
            place.give_back(self.claimant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Kind, Memory, Purpose};
    use super::*;

    /// The places of so many processes.
    fn places(processes: u32) -> (Memory, View<[Place]>) {
        let body = |processes| Participants::places(processes) * size_of::<Place>();
        let purpose = Purpose { kind: Kind::Semaphore, members: processes, detail: 0, body };
        let memory = Memory::create_nameless(purpose, &|_| Ok(())).unwrap();
        let places = memory.slice(0, Participants::places(processes)).unwrap();
        (memory, places)
    }

    #[test]
    fn whether_a_place_is_spared_is_asked_only_once_its_process_is_dead() {
        let (memory, seen) = places(1);
        assert!(seen[0].take(Claimant::own(memory.namespace())));
        let join = |spares: &dyn Fn(u32) -> bool| {
            Participants::join(memory.slice(0, 2).unwrap(), memory.namespace(), spares).map(|joined| joined.own())
        };
        assert!(matches!(join(&|_| panic!("its process lives")), Err(MemoryError::Full(1))));
        seen[0].give_back(Claimant::own(memory.namespace()));
        assert!(seen[0].take(Claimant::nobody()));
        assert!(matches!(join(&|_| false), Err(MemoryError::Full(1))));
        assert_eq!(seen[1].lost(memory.namespace()), None);
        // Somebody else is faster.
        let faster =
            |_| seen[0].forget(memory.namespace()).is_some() && seen[0].take(Claimant::own(memory.namespace()));
        assert!(matches!(join(&faster), Err(MemoryError::Full(1))));
    }

    #[test]
    fn a_death_is_remembered_when_its_place_is_taken() {
        let (memory, places) = places(1);
        let (namespace, dead) = (memory.namespace(), Claimant::nobody());
        assert!(places[0].take(dead));
        let pid = places[0].lost(namespace);
        let joined = Participants::join(places, namespace, |_| true).unwrap();
        assert_eq!((joined.own(), joined.lost()), (0, pid));
        assert_eq!(joined.forget(), Vec::from_iter(pid));
        assert_eq!((joined.lost(), joined.forget()), (None, vec![]));
    }
}
