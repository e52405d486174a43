//! The element of queues: a buffer, with its number and whether it is the last.

use crate::buffer::Buffer;

/// A buffer in a pipeline. It is boxed, so that queues move only its address.
#[derive(Debug)]
pub(crate) struct QueuedBuffer<T> {
    /// Its number in its pipeline, assigned when the first stage takes it.
    pub(crate) number: u64,
    /// Whether it is the last buffer of the stream.
    pub(crate) is_last: bool,
    pub(crate) buffer: Buffer<T>,
}

impl<T> QueuedBuffer<T> {
    /// A free buffer, without a number yet.
    pub(crate) fn free(mut buffer: Buffer<T>) -> Box<QueuedBuffer<T>> {
        buffer.clear();
        Box::new(QueuedBuffer { number: 0, is_last: false, buffer })
    }
}
