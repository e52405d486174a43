//! What travels from queue to queue: a buffer, with its number and whether it is the last.

use crate::buffer::Buffer;

/// A buffer on its way. It stays where it is: what goes from queue to queue is its address.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    /// Its number in its pipeline, given when the first stage takes it.
    pub(crate) number: u64,
    /// Whether no other comes after it.
    pub(crate) is_last: bool,
    pub(crate) buffer: Buffer<T>,
}

impl<T> Entry<T> {
    /// One that belongs to no round yet.
    pub(crate) fn free(mut buffer: Buffer<T>) -> Box<Entry<T>> {
        buffer.clear();
        Box::new(Entry { number: 0, is_last: false, buffer })
    }
}
