//! Who uses a shared object: each process that has it open has a place there.

use sys::shared_memory::View;

use super::memory::MemoryError;
use crate::member::{Claimant, Place};

/// The processes that use an object, seen from one of them.
#[derive(Debug)]
pub(super) struct Participants {
    places: View<[Place]>,
    namespace: u64,
    claimant: Claimant,
    /// Which place is this process's.
    own: u32,
}

impl Participants {
    /// Takes the first place that is free; where there is none, the first that its dead process does not need any more.
    pub(super) fn join(
        places: View<[Place]>,
        namespace: u64,
        spares: impl Fn(u32) -> bool,
    ) -> Result<Participants, MemoryError> {
        let claimant = Claimant::own(namespace);
        let find = |take: &dyn Fn(u32, &Place) -> bool| (0..).zip(&*places).find(|&(at, place)| take(at, place));
        let own = find(&|_, place| place.take(claimant))
            .or_else(|| find(&|at, place| spares(at) && place.forget(namespace).is_some() && place.take(claimant)));
        let Some((own, _)) = own else { return Err(MemoryError::Full(places.len())) };
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

    /// Frees the places of all processes that have ended, and returns their numbers.
    pub(super) fn forget(&self) -> Vec<u32> {
        self.places.iter().filter_map(|place| place.forget(self.namespace)).collect()
    }
}

impl Drop for Participants {
    fn drop(&mut self) {
        if let Some(place) = self.places.get(self.own as usize) {
            place.give_back(self.claimant);
        }
    }
}
