//! The sort in memory: of numbers that hold the beginning of each record's key and which record it is.
//!
//! Such numbers are sorted without a look at the records, which are all over memory. Only those whose beginnings are equal are looked at again: if there are few of
//! them they are compared, if there are many they get the bytes after those that all of them share as their new beginnings, and are sorted by these.
//!
//! Nothing here takes memory beyond the entries, 16 bytes for each record, or more than n log n steps, whatever the records are.

use std::ops::ControlFlow;

use crate::chunk::{Chunk, text};
use crate::key::Key;
use crate::number::load;
use crate::order::{FREE_BITS, Order};

/// Puts the records of a chunk in order, equal ones as they came: fills its `entries`.
pub fn sort(order: &Order, bytes: &[u8], chunk: &mut Chunk) {
    let format = order.format();
    let mut entries = std::mem::take(&mut chunk.entries);
    entries.clear();
    entries.extend(
        (0..chunk.len() as u32)
            .map(|index| order.prefix(text(chunk.record(bytes, format, index), format)) | u128::from(index)),
    );
    entries.sort_unstable();
    if !order.is_decided_by_prefix() {
        let ties = Ties { order, bytes, chunk };
        for equal in entries.chunk_by_mut(have_equal_prefixes) {
            let prefix = equal[0] & PREFIX;
            if equal.len() > 1 && !order.is_decided(prefix) {
                ties.resolve(equal, BYTES, 0);
                equal.iter_mut().for_each(|entry| *entry = prefix | (*entry & !PREFIX));
            }
        }
    }
    chunk.entries = entries;
}

/// The bits of an entry that are a record's, and how many bytes these are.
const PREFIX: u128 = u128::MAX << FREE_BITS;
const BYTES: usize = (u128::BITS - FREE_BITS) as usize / 8;

fn have_equal_prefixes(left: &u128, right: &u128) -> bool {
    left & PREFIX == right & PREFIX
}

/// Up to so many entries are compared at once.
const FEW: usize = 16;

/// After so many new beginnings what is still equal is compared: it takes records made for the purpose to get there, and they shall not use up the stack.
const DEEPEST: u32 = 64;

/// What settles the order of records whose beginnings are equal.
struct Ties<'c> {
    order: &'c Order,
    bytes: &'c [u8],
    chunk: &'c Chunk,
}

impl<'c> Ties<'c> {
    /// Puts entries in order, of which all agree in so many bytes of their keys. Their prefixes may be others after it.
    fn resolve(&self, entries: &mut [u128], shared: usize, depth: u32) {
        let key = self.order.only_bytes().filter(|_| entries.len() > FEW && depth < DEEPEST);
        let Some(key) = key else {
            return self.compare(entries);
        };
        let shared = shared + self.common_length(key, entries, shared);
        for entry in &mut *entries {
            let next = load(self.rest(key, *entry, shared));
            let next = if key.descending { !next } else { next };
            *entry = next & PREFIX | *entry & !PREFIX;
        }
        entries.sort_unstable();
        let is_split =
            entries.first().zip(entries.last()).is_some_and(|(first, last)| !have_equal_prefixes(first, last));
        if !is_split {
            // They are equal, or differ by how many bytes 0 they end with.
            return self.compare(entries);
        }
        for equal in entries.chunk_by_mut(have_equal_prefixes).filter(|equal| equal.len() > 1) {
            self.resolve(equal, shared + BYTES, depth + 1);
        }
    }

    /// How many bytes all these keys share from this one on.
    fn common_length(&self, key: &Key, entries: &[u128], from: usize) -> usize {
        let Some((&first, others)) = entries.split_first() else { return 0 };
        let first = self.rest(key, first, from);
        let shared = others.iter().try_fold(first.len(), |shared, &entry| {
            match common_prefix(&first[..shared], self.rest(key, entry, from)) {
                0 => ControlFlow::Break(()),
                shared => ControlFlow::Continue(shared),
            }
        });
        shared.continue_value().unwrap_or(0)
    }

    fn compare(&self, entries: &mut [u128]) {
        entries.sort_unstable_by(|left, right| {
            let ordering = self.order.compare(self.record(*left), self.record(*right));
            ordering.then_with(|| (left & !PREFIX).cmp(&(right & !PREFIX)))
        });
    }

    fn record(&self, entry: u128) -> &'c [u8] {
        let format = self.order.format();
        text(self.chunk.record(self.bytes, format, entry as u32), format)
    }

    /// A record's key from this byte on, which may be nothing.
    fn rest(&self, key: &Key, entry: u128, from: usize) -> &'c [u8] {
        key.of(self.record(entry)).get(from..).unwrap_or_default()
    }
}

/// With how many equal bytes both begin.
fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    // Pieces are compared by one call, and many of them are equal.
    const PIECE: usize = 32;
    let pieces = left.chunks_exact(PIECE).zip(right.chunks_exact(PIECE));
    let equal = PIECE * pieces.take_while(|(left, right)| left == right).count();
    equal + left[equal..].iter().zip(&right[equal..]).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests;
