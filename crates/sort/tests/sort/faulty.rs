//! Readers and writers with the worst behaviour that files and pipes may have.

use std::io::{self, Read, Write};

/// A reader that returns its bytes in small portions, is interrupted by a signal before each, and
/// may end with an error.
pub(crate) struct FaultyReader {
    pub(crate) bytes: Vec<u8>,
    /// The maximum sizes of portions, used in turn.
    pub(crate) portions: Vec<usize>,
    /// The error after the last byte, if any.
    pub(crate) failure: Option<io::ErrorKind>,
    pub(crate) given: usize,
    pub(crate) calls: usize,
}

impl FaultyReader {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>, portions: &[usize], failure: Option<io::ErrorKind>) -> FaultyReader {
        FaultyReader { bytes: bytes.into(), portions: portions.to_vec(), failure, given: 0, calls: 0 }
    }
}

impl Read for FaultyReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls % 2 == 1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let rest = &self.bytes[self.given..];
        match self.failure {
            Some(failure) if rest.is_empty() => return Err(failure.into()),
            _ => {}
        }
        let portion = self.portions[self.calls / 2 % self.portions.len()];
        let count = rest.len().min(into.len()).min(portion);
        into[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

/// A writer that accepts `room` bytes, in small portions and with interruptions, and then fails.
pub(crate) struct FaultyWriter {
    pub(crate) room: usize,
    pub(crate) failure: io::ErrorKind,
    pub(crate) calls: usize,
}

impl Write for FaultyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls % 2 == 1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.room == 0 {
            return Err(self.failure.into());
        }
        let count = bytes.len().min(self.room).min(1000);
        self.room -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
