//! Counts the records that a sort reads and drops.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::Chunk;
use crate::error::SortError;
use crate::order::Format;
use crate::ranks::Ranks;

/// Counts of records and bytes, and a checksum of the records that does not depend on their order.
#[derive(Debug, Default)]
pub(crate) struct RecordCounts {
    has_checksum: bool,
    records: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    sum: AtomicU64,
}

impl RecordCounts {
    pub(crate) fn new(has_checksum: bool) -> RecordCounts {
        RecordCounts { has_checksum, ..RecordCounts::default() }
    }

    /// Counts the records of a chunk as read.
    pub(crate) fn add_read(&self, chunk: &Chunk, bytes: &[u8], format: Format) {
        self.records.fetch_add(chunk.len() as u64, Relaxed);
        self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        if self.has_checksum {
            let records = (0..chunk.len() as u32).map(|index| chunk.record(bytes, format, index));
            self.sum.fetch_add(records.map(checksum).fold(0, u64::wrapping_add), Relaxed);
        }
    }

    /// Counts a record that was dropped as a duplicate.
    pub(crate) fn add_dropped(&self, record: &[u8]) {
        self.dropped.fetch_add(1, Relaxed);
        if self.has_checksum {
            self.sum.fetch_sub(checksum(record), Relaxed);
        }
    }

    /// Counts also what the other ranks have counted. Waits for them.
    pub(crate) fn add_ranks(&self, ranks: Ranks<'_>) -> Result<(), SortError> {
        let counts = [&self.records, &self.bytes, &self.dropped, &self.sum];
        let mut sums = counts.map(|count| count.load(Relaxed));
        ranks.combine(&mut sums, u64::wrapping_add)?;
        counts.iter().zip(sums).for_each(|(count, sum)| count.store(sum, Relaxed));
        Ok(())
    }

    pub(crate) fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// The number of bytes read, including a line feed that was missing at the end.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The number of records expected in the output, and their checksum.
    pub(crate) fn expected(&self) -> (u64, u64) {
        (self.records() - self.dropped.load(Relaxed), self.sum.load(Relaxed))
    }
}

/// The checksum of one record; the checksums of all records are added.
pub(crate) fn checksum(record: &[u8]) -> u64 {
    xxh3_64(record)
}
