//! The in-memory sort: sorts entries, each with the prefix of a record's key and the record's
//! index.
//!
//! Sorting entries does not access the records, which are scattered in memory. Only records with
//! equal prefixes are read again. A few of them are compared directly. Of many, the sort skips the
//! bytes that all of them share, makes the next bytes the new prefixes, and sorts by these.
//!
//! For any input, the sort uses no memory beyond the entries, 16 bytes for each record, and takes
//! at most O(n log n) steps.

use std::ops::ControlFlow;

use crate::chunk::{Chunk, text};
use crate::key::Key;
use crate::number::load;
use crate::order::{FREE_BITS, Order};

/// Sorts the records of a chunk stably and fills its `entries`.
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

/// The bits of an entry that hold the prefix, and their number of bytes.
const PREFIX: u128 = u128::MAX << FREE_BITS;
const BYTES: usize = (u128::BITS - FREE_BITS) as usize / 8;

fn have_equal_prefixes(left: &u128, right: &u128) -> bool {
    left & PREFIX == right & PREFIX
}

/// Ties of up to this many entries are resolved by comparison.
const FEW: usize = 16;

/// After this many new prefixes, remaining ties are resolved by comparison. This bounds the stack
/// for input made to reach such a depth.
const DEEPEST: u32 = 64;

/// Resolves the order of records with equal prefixes.
struct Ties<'c> {
    order: &'c Order,
    bytes: &'c [u8],
    chunk: &'c Chunk,
}

impl<'c> Ties<'c> {
    /// Sorts entries whose keys agree in the first `shared` bytes. May change their prefixes.
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
            // The keys are equal or differ only in the number of 0 bytes at their end.
            return self.compare(entries);
        }
        for equal in entries.chunk_by_mut(have_equal_prefixes).filter(|equal| equal.len() > 1) {
            self.resolve(equal, shared + BYTES, depth + 1);
        }
    }

    /// The length of the longest common prefix of all keys from offset `from` on.
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

    /// The rest of a record's key from offset `from` on; may be empty.
    fn rest(&self, key: &Key, entry: u128, from: usize) -> &'c [u8] {
        key.of(self.record(entry)).get(from..).unwrap_or_default()
    }
}

/// The length of the longest common prefix.
fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    // One call compares a whole piece; many pieces are equal.
    const PIECE: usize = 32;
    let pieces = left.chunks_exact(PIECE).zip(right.chunks_exact(PIECE));
    let equal = PIECE * pieces.take_while(|(left, right)| left == right).count();
    equal + left[equal..].iter().zip(&right[equal..]).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests;
