//! A chunk: the records that are sorted in memory at once.

use std::collections::TryReserveError;

use crate::order::Format;

/// The positions of the records of a chunk, and their order. The bytes are stored elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// The start of each line and the end of the last one; empty for records of fixed size.
    starts: Vec<u32>,
    /// The number of records.
    count: usize,
    /// The sorted records: their prefixes, with the record's index in the [free
    /// bits](crate::order::FREE_BITS).
    pub entries: Vec<u128>,
}

impl Chunk {
    /// Finds the records in the bytes and forgets previous ones. All records must be complete, and
    /// there may be at most 2^32 bytes.
    pub fn find(&mut self, bytes: &[u8], format: Format) {
        self.starts.clear();
        self.entries.clear();
        match format {
            Format::Fixed(size) => self.count = bytes.len() / size,
            Format::Lines => {
                self.starts.push(0);
                self.starts.extend(memchr::memchr_iter(b'\n', bytes).map(|end| end as u32 + 1));
                self.count = self.starts.len() - 1;
            }
        }
    }

    /// Reserves memory for this many records, so that none is allocated later.
    ///
    /// # Errors
    /// Returns an error if there is no memory.
    pub fn reserve(&mut self, records: usize, format: Format) -> Result<(), TryReserveError> {
        self.entries.try_reserve_exact(records.saturating_sub(self.entries.len()))?;
        if format == Format::Lines {
            self.starts.try_reserve_exact((records + 1).saturating_sub(self.starts.len()))?;
        }
        Ok(())
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the chunk has no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a record with its line feed, if it has one.
    #[inline]
    pub fn record<'b>(&self, bytes: &'b [u8], format: Format, index: u32) -> &'b [u8] {
        let index = index as usize;
        match format {
            Format::Fixed(size) => &bytes[index * size..][..size],
            Format::Lines => &bytes[self.starts[index] as usize..self.starts[index + 1] as usize],
        }
    }
}

/// Returns a record without its line feed, as keys expect it.
#[inline]
pub fn text(record: &[u8], format: Format) -> &[u8] {
    match format {
        Format::Fixed(_) => record,
        Format::Lines => record.strip_suffix(b"\n").unwrap_or(record),
    }
}
