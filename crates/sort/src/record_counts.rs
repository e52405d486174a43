//! What was read and dropped, counted as it goes by.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use xxhash_rust::xxh3::xxh3_64;

use crate::chunk::Chunk;
use crate::order::Format;

/// How many records and bytes there are, and a checksum of the records that does not depend on their order.
#[derive(Debug, Default)]
pub(crate) struct RecordCounts {
    /// Whether there is a checksum.
    has_checksum: bool,
    records: AtomicU64,
    bytes: AtomicU64,
    dropped: AtomicU64,
    sum: AtomicU64,
}

impl RecordCounts {
    /// Nothing counted yet.
    pub(crate) fn new(has_checksum: bool) -> RecordCounts {
        RecordCounts { has_checksum, ..RecordCounts::default() }
    }

    /// The records of a chunk were read.
    pub(crate) fn add_read(&self, chunk: &Chunk, bytes: &[u8], format: Format) {
        self.records.fetch_add(chunk.len() as u64, Relaxed);
        self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        if self.has_checksum {
            let records = (0..chunk.len() as u32).map(|index| chunk.record(bytes, format, index));
            self.sum.fetch_add(records.map(checksum).fold(0, u64::wrapping_add), Relaxed);
        }
    }

    /// A record was dropped, since there is an equal one.
    pub(crate) fn add_dropped(&self, record: &[u8]) {
        self.dropped.fetch_add(1, Relaxed);
        if self.has_checksum {
            self.sum.fetch_sub(checksum(record), Relaxed);
        }
    }

    /// How many records were read.
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Relaxed)
    }

    /// How many bytes were read, a missing line feed at the end counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How many records there should be now, and their checksum.
    pub(crate) fn expected(&self) -> (u64, u64) {
        (self.records() - self.dropped.load(Relaxed), self.sum.load(Relaxed))
    }
}

/// The checksum of one record, to be added to that of others.
pub(crate) fn checksum(record: &[u8]) -> u64 {
    xxh3_64(record)
}
