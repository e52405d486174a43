//! Which barriers of ours there are, and where: for those that the program makes anew in the same place without having destroyed
//! them, as one on a stack, which would else take memory for ever.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// How many there can be at a time.
const MOST: usize = 4096;

/// A table of addresses.
pub(crate) struct BarrierTable {
    /// By number; zero where nothing is.
    addresses: [AtomicUsize; MOST],
    /// Where to begin to look for room.
    next: AtomicUsize,
}

impl BarrierTable {
    pub(crate) const fn new() -> BarrierTable {
        BarrierTable { addresses: [const { AtomicUsize::new(0) }; MOST], next: AtomicUsize::new(0) }
    }

    /// Adds what is at an address, and returns its number; nothing where there is no room.
    pub(crate) fn add(&self, address: usize) -> Option<usize> {
        let first = self.next.fetch_add(1, Relaxed);
        (0..MOST).map(|further| first.wrapping_add(further) % MOST).find(|&number| {
            self.addresses[number].load(Relaxed) == 0
                && self.addresses[number].compare_exchange(0, address, Relaxed, Relaxed).is_ok()
        })
    }

    /// Whether that is the number of what is at this address.
    pub(crate) fn contains(&self, number: usize, address: usize) -> bool {
        self.addresses.get(number).is_some_and(|at| at.load(Relaxed) == address)
    }

    pub(crate) fn remove(&self, number: usize) {
        if let Some(at) = self.addresses.get(number) {
            at.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_held_until_it_is_removed() {
        let table = BarrierTable::new();
        let number = table.add(7).unwrap();
        assert!(table.contains(number, 7) && !table.contains(number, 8) && !table.contains(MOST, 7));
        table.remove(number);
        assert!(!table.contains(number, 7));
    }

    #[test]
    fn there_is_room_again_when_something_is_removed() {
        let table = BarrierTable::new();
        let numbers: std::collections::BTreeSet<usize> = (1..=MOST).filter_map(|at| table.add(at)).collect();
        assert_eq!(numbers.len(), MOST);
        assert_eq!(table.add(MOST + 1), None);
        table.remove(17);
        assert_eq!(table.add(MOST + 1), Some(17));
    }
}
