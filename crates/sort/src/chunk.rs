//! A chunk: as many records as are sorted in memory at once.

use crate::order::Format;

/// Where the records of a chunk are, and in which order they come. The bytes are elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Where each line begins, and where the last one ends; empty for records of one size.
    starts: Vec<u32>,
    /// How many records there are.
    count: usize,
    /// The sorted records: their prefixes, and in the [free bits](crate::order::FREE_BITS) which each is.
    pub entries: Vec<u128>,
}

impl Chunk {
    /// Finds the records in the bytes, all of which are whole, and forgets what was there before. There may be no more than 2^32 bytes.
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

    /// Makes room for so many records at once, so that no more is taken later.
    pub fn reserve(&mut self, records: usize, format: Format) {
        self.entries.reserve_exact(records.saturating_sub(self.entries.len()));
        if format == Format::Lines {
            self.starts.reserve_exact((records + 1).saturating_sub(self.starts.len()));
        }
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One record with its line feed, if it has one.
    #[inline]
    pub fn record<'b>(&self, bytes: &'b [u8], format: Format, index: u32) -> &'b [u8] {
        let index = index as usize;
        match format {
            Format::Fixed(size) => &bytes[index * size..][..size],
            Format::Lines => &bytes[self.starts[index] as usize..self.starts[index + 1] as usize],
        }
    }
}

/// A record without its line feed, as keys are taken from it.
#[inline]
pub fn text(record: &[u8], format: Format) -> &[u8] {
    match format {
        Format::Fixed(_) => record,
        Format::Lines => record.strip_suffix(b"\n").unwrap_or(record),
    }
}
