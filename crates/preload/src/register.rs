//! Which barriers of ours there are, and where: for those that the program makes anew in the same place without having destroyed
//! them, as one on a stack, which would else take memory for ever.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// How many there can be at a time.
const MOST: usize = 4096;

/// A register of addresses.
pub(crate) struct Register {
    /// By number; zero where nothing is.
    addresses: [AtomicUsize; MOST],
    /// Where to begin to look for room.
    next: AtomicUsize,
}

impl Register {
    pub(crate) const fn new() -> Register {
        Register { addresses: [const { AtomicUsize::new(0) }; MOST], next: AtomicUsize::new(0) }
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
    pub(crate) fn holds(&self, number: usize, address: usize) -> bool {
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
        let register = Register::new();
        let number = register.add(7).unwrap();
        assert!(register.holds(number, 7) && !register.holds(number, 8) && !register.holds(MOST, 7));
        register.remove(number);
        assert!(!register.holds(number, 7));
    }

    #[test]
    fn there_is_room_again_when_something_is_removed() {
        let register = Register::new();
        let numbers: std::collections::BTreeSet<usize> = (1..=MOST).filter_map(|at| register.add(at)).collect();
        assert_eq!(numbers.len(), MOST);
        assert_eq!(register.add(MOST + 1), None);
        register.remove(17);
        assert_eq!(register.add(MOST + 1), Some(17));
    }
}
