//! Buffers: blocks of whole pages that travel through a pipeline and are reused.

use std::io;

use sys::pages::Pages;

/// A page-aligned block of memory whose first [`len`](Buffer::len) bytes are filled, and a tag that
/// the program defines.
///
/// A pipeline allocates its buffers when it starts. A buffer that has passed the last stage returns
/// to the first one. Its length is then zero, but block and tag keep their contents, so a stage can
/// reuse them.
#[derive(Debug)]
pub struct Buffer<T = ()> {
    block: Pages,
    filled: usize,
    /// Travels with the bytes.
    pub tag: T,
}

impl<T: Default> Buffer<T> {
    /// Creates an empty buffer of this capacity.
    ///
    /// # Errors
    /// The kernel's error if there is no memory.
    pub fn new(capacity: usize) -> io::Result<Buffer<T>> {
        Ok(Buffer { block: Pages::new(capacity)?, filled: 0, tag: T::default() })
    }
}

impl<T> Buffer<T> {
    /// The size of the block, in bytes: the pipeline's block size.
    pub fn capacity(&self) -> usize {
        self.block.len()
    }

    /// Changes the size of the block. Filled bytes are kept as far as they fit, without copying.
    ///
    /// # Errors
    /// The kernel's error if there is no memory. The buffer is then unchanged.
    pub fn resize(&mut self, capacity: usize) -> io::Result<()> {
        self.block.resize(capacity)?;
        self.filled = self.filled.min(capacity);
        Ok(())
    }

    /// The number of filled bytes.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether no bytes are filled.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Sets the length to zero. The bytes keep their values.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Sets the number of filled bytes. The bytes keep their values.
    ///
    /// # Panics
    /// If `length` exceeds the capacity.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity(), "{length} bytes do not fit into a block of {}", self.capacity());
        self.filled = length;
    }

    /// The filled bytes.
    pub fn filled(&self) -> &[u8] {
        &self.block[..self.filled]
    }

    /// The filled bytes, mutable.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.block[..self.filled]
    }

    /// The whole block. After filling it, set its length with [`set_len`](Buffer::set_len). It is
    /// aligned to a page, as direct I/O requires.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.block
    }

    /// Exchanges blocks and lengths with another buffer, without copying. The tags stay.
    ///
    /// A stage that cannot work in place fills an [auxiliary](crate::Round::auxiliary) buffer and
    /// swaps.
    pub fn swap(&mut self, other: &mut Buffer<T>) {
        std::mem::swap(&mut self.block, &mut other.block);
        std::mem::swap(&mut self.filled, &mut other.filled);
    }

    /// Fills the buffer from a reader until the buffer is full or the reader ends. Returns the
    /// number of bytes read.
    ///
    /// # Errors
    /// The reader's. Bytes read before the error are in the buffer.
    pub fn fill_from(&mut self, reader: &mut impl io::Read) -> io::Result<usize> {
        let before = self.filled;
        while self.filled < self.block.len() {
            match reader.read(&mut self.block[self.filled..]) {
                Ok(0) => break,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.filled - before)
    }
}

/// Appends as many bytes as fit.
impl<T> io::Write for Buffer<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.capacity() - self.filled);
        self.block[self.filled..][..fits].copy_from_slice(&bytes[..fits]);
        self.filled += fits;
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_that_do_not_fit_are_refused() {
        let mut buffer: Buffer = Buffer::new(8).unwrap();
        buffer.write_all(b"hello").unwrap();
        assert_eq!(buffer.filled(), b"hello");
        assert_eq!(buffer.write_all(b" world").unwrap_err().kind(), io::ErrorKind::WriteZero);
        assert_eq!(buffer.filled(), b"hello wo");
        buffer.clear();
        assert!(buffer.is_empty() && buffer.capacity() == 8);
    }

    #[test]
    fn a_swap_exchanges_the_bytes_and_leaves_the_tags() {
        let (mut left, mut right) = (Buffer::<u32>::new(4).unwrap(), Buffer::<u32>::new(6).unwrap());
        (left.tag, right.tag) = (1, 2);
        left.write_all(b"left").unwrap();
        left.swap(&mut right);
        assert_eq!((left.len(), left.capacity(), left.tag), (0, 6, 1));
        assert_eq!((right.filled(), right.capacity(), right.tag), (&b"left"[..], 4, 2));
    }

    #[test]
    fn a_resize_keeps_what_is_filled() {
        let mut buffer = Buffer::<u32>::new(8).unwrap();
        buffer.write_all(b"hello").unwrap();
        buffer.resize(10_000).unwrap();
        assert_eq!((buffer.filled(), buffer.capacity()), (&b"hello"[..], 10_000));
        buffer.resize(4).unwrap();
        assert_eq!((buffer.filled(), buffer.capacity()), (&b"hell"[..], 4));
    }

    #[test]
    fn a_reader_fills_a_buffer_until_either_ends() {
        let mut buffer: Buffer = Buffer::new(8).unwrap();
        let mut reader = io::Read::chain(&b"abc"[..], &b"defghijk"[..]);
        assert_eq!(buffer.fill_from(&mut reader).unwrap(), 8);
        buffer.clear();
        assert_eq!(buffer.fill_from(&mut reader).unwrap(), 3);
        assert_eq!(buffer.filled(), b"ijk");
    }
}
