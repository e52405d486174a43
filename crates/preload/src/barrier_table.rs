//! A table of all barriers of ours and their addresses. It detects a barrier that the program
//! initializes again at the same address without destroying it, for example on a stack, whose
//! memory would otherwise leak.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of barriers.
const MOST: usize = 4096;

/// A table of addresses.
pub(crate) struct BarrierTable {
    /// By number; zero if unused.
    addresses: [AtomicUsize; MOST],
    /// The start of the next search for a free entry.
    next: AtomicUsize,
}

impl BarrierTable {
    pub(crate) const fn new() -> BarrierTable {
        BarrierTable { addresses: [const { AtomicUsize::new(0) }; MOST], next: AtomicUsize::new(0) }
    }

    /// Adds an address and returns its number, or `None` if the table is full.
    pub(crate) fn add(&self, address: usize) -> Option<usize> {
        let first = self.next.fetch_add(1, Relaxed);
        (0..MOST).map(|further| first.wrapping_add(further) % MOST).find(|&number| {
            self.addresses[number].load(Relaxed) == 0
                && self.addresses[number].compare_exchange(0, address, Relaxed, Relaxed).is_ok()
        })
    }

    /// Whether the entry with this number has this address.
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
    fn an_entry_is_contained_until_it_is_removed() {
        let table = BarrierTable::new();
        let number = table.add(7).unwrap();
        assert!(table.contains(number, 7) && !table.contains(number, 8) && !table.contains(MOST, 7));
        table.remove(number);
        assert!(!table.contains(number, 7));
    }

    #[test]
    fn a_removed_entry_is_reused() {
        let table = BarrierTable::new();
        let numbers: std::collections::BTreeSet<usize> = (1..=MOST).filter_map(|at| table.add(at)).collect();
        assert_eq!(numbers.len(), MOST);
        assert_eq!(table.add(MOST + 1), None);
        table.remove(17);
        assert_eq!(table.add(MOST + 1), Some(17));
    }
}
