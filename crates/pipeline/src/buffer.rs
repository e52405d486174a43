//! Buffers: blocks of whole pages that travel through a pipeline, are made once and used again and again.

use std::io;

use sys::pages::Pages;

/// A block of memory that begins with a page, of which the first [`len`](Buffer::len) bytes are filled, and a tag of the program's own.
///
/// The blocks of a pipeline are made when it begins and come back to its first stage when they have passed the last one; then the
/// buffer is empty again, while block and tag hold what they held, so that what is in them need not be made again.
#[derive(Debug)]
pub struct Buffer<T = ()> {
    block: Pages,
    filled: usize,
    /// What the program wants to travel with the bytes.
    pub tag: T,
}

impl<T: Default> Buffer<T> {
    /// An empty buffer with room for so many bytes.
    ///
    /// # Errors
    /// The kernel's, where there is no memory for them.
    pub fn new(capacity: usize) -> io::Result<Buffer<T>> {
        Ok(Buffer { block: Pages::new(capacity)?, filled: 0, tag: T::default() })
    }
}

impl<T> Buffer<T> {
    /// How many bytes there is room for: the pipeline's block size.
    pub fn capacity(&self) -> usize {
        self.block.len()
    }

    /// How many bytes are filled.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Says that none are filled. The bytes stay what they are.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Says how many bytes, from the first on, are filled; what is in them is what was last written there.
    ///
    /// # Panics
    /// When there is no room for so many.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity(), "{length} bytes do not fit into a block of {}", self.capacity());
        self.filled = length;
    }

    /// The bytes that are filled.
    pub fn filled(&self) -> &[u8] {
        &self.block[..self.filled]
    }

    /// The bytes that are filled, to be changed.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.block[..self.filled]
    }

    /// The whole block, to be filled; [`set_len`](Buffer::set_len) then says how much of it was. It begins with a page, as direct
    /// input and output want it.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.block
    }

    /// Exchanges bytes with another buffer, without copying them. The tags stay.
    ///
    /// A stage that cannot work in place fills an [auxiliary](crate::Round::auxiliary) buffer and swaps.
    pub fn swap(&mut self, other: &mut Buffer<T>) {
        std::mem::swap(&mut self.block, &mut other.block);
        std::mem::swap(&mut self.filled, &mut other.filled);
    }

    /// Fills the buffer from a reader until it is full or the reader has no more, and returns how many bytes came.
    ///
    /// # Errors
    /// The reader's; what came before is in the buffer.
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

/// Appends what fits.
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
    fn what_is_written_is_filled_and_what_does_not_fit_is_refused() {
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
    fn a_reader_fills_a_buffer_as_far_as_it_goes() {
        let mut buffer: Buffer = Buffer::new(8).unwrap();
        let mut reader = io::Read::chain(&b"abc"[..], &b"defghijk"[..]);
        assert_eq!(buffer.fill_from(&mut reader).unwrap(), 8);
        buffer.clear();
        assert_eq!(buffer.fill_from(&mut reader).unwrap(), 3);
        assert_eq!(buffer.filled(), b"ijk");
    }
}
