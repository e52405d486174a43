//! A table of all barriers of ours and their addresses. It detects a barrier that the program
//! initializes again at the same address without destroying it, for example on a stack, whose
//! memory would otherwise leak. And it limits the memory of all barriers together: in the C library
//! a barrier takes none, whatever its number of parties.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// The maximum number of barriers.
const MOST: usize = 4096;
/// The maximum number of their parties, each of which takes 132 bytes.
const MOST_PARTIES: u32 = 65_536;

/// A table of addresses.
pub(crate) struct BarrierTable {
    /// By number; zero if unused.
    addresses: [AtomicUsize; MOST],
    /// The start of the next search for a free entry.
    next: AtomicUsize,
    /// The number of parties of all barriers.
    parties: AtomicU32,
}

impl BarrierTable {
    pub(crate) const fn new() -> BarrierTable {
        BarrierTable {
            addresses: [const { AtomicUsize::new(0) }; MOST],
            next: AtomicUsize::new(0),
            parties: AtomicU32::new(0),
        }
    }

    /// Adds the address of a barrier with so many parties, and returns its number. `None` if there
    /// are too many barriers or parties.
    pub(crate) fn add(&self, address: usize, parties: u32) -> Option<usize> {
        let more = |others: u32| others.checked_add(parties).filter(|all| *all <= MOST_PARTIES);
        self.parties.fetch_update(Relaxed, Relaxed, more).ok()?;
        let first = self.next.fetch_add(1, Relaxed);
        let number = (0..MOST).map(|further| first.wrapping_add(further) % MOST).find(|&number| {
            self.addresses[number].load(Relaxed) == 0
                && self.addresses[number].compare_exchange(0, address, Relaxed, Relaxed).is_ok()
        });
        if number.is_none() {
            self.parties.fetch_sub(parties, Relaxed);
        }
        number
    }

    /// Whether the entry with this number has this address.
    pub(crate) fn contains(&self, number: usize, address: usize) -> bool {
        self.addresses.get(number).is_some_and(|at| at.load(Relaxed) == address)
    }

    /// Removes a barrier that was added with so many parties.
    pub(crate) fn remove(&self, number: usize, parties: u32) {
        if let Some(at) = self.addresses.get(number) {
            at.store(0, Relaxed);
            self.parties.fetch_sub(parties, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_contained_until_it_is_removed() {
        let table = BarrierTable::new();
        let number = table.add(7, 1).unwrap();
        assert!(table.contains(number, 7) && !table.contains(number, 8) && !table.contains(MOST, 7));
        table.remove(number, 1);
        assert!(!table.contains(number, 7));
    }

    #[test]
    fn a_removed_entry_is_reused() {
        let table = BarrierTable::new();
        let numbers: std::collections::BTreeSet<usize> = (1..=MOST).filter_map(|at| table.add(at, 1)).collect();
        assert_eq!(numbers.len(), MOST);
        assert_eq!(table.add(MOST + 1, 1), None);
        table.remove(17, 1);
        assert_eq!(table.add(MOST + 1, 1), Some(17));
    }

    #[test]
    fn the_parties_of_all_barriers_are_limited() {
        let table = BarrierTable::new();
        let all = table.add(1, MOST_PARTIES).unwrap();
        assert_eq!(table.add(2, 1), None);
        table.remove(all, MOST_PARTIES);
        assert_eq!(table.add(1, u32::MAX), None);
        for at in 1..=MOST {
            assert!(table.add(at, MOST_PARTIES / MOST as u32).is_some());
        }
        assert_eq!(table.add(MOST + 1, 0), None);
    }
}
