//! An interruptible reader of a pipe or terminal, which may have no data for a long time.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};

use rustix::event::{PollFd, PollFlags, poll};

/// A file that can be read until it is interrupted.
pub(super) struct Interruptible {
    file: File,
    /// Reaches its end when the [`Interrupt`] is dropped.
    interrupted: PipeReader,
}

/// Interrupts the reader when it is dropped.
pub(super) struct Interrupt(#[expect(dead_code, reason = "it is there to be dropped")] PipeWriter);

impl Interruptible {
    pub(super) fn new(file: File) -> io::Result<(Interruptible, Interrupt)> {
        let (interrupted, writer) = io::pipe()?;
        Ok((Interruptible { file, interrupted }, Interrupt(writer)))
    }
}

impl Read for Interruptible {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut both = [PollFd::new(&self.file, PollFlags::IN), PollFd::new(&self.interrupted, PollFlags::IN)];
        poll(&mut both, None)?;
        if !both[1].revents().is_empty() {
            return Err(io::Error::other("interrupted"));
        }
        self.file.read(into)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn reading_fails_after_an_interrupt() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (mut file, interrupt) = Interruptible::new(File::from(OwnedFd::from(reader))).unwrap();
        writer.write_all(b"some").unwrap();
        let mut bytes = [0; 8];
        assert_eq!(file.read(&mut bytes).unwrap(), 4);
        // No more data comes, but the writer still exists.
        let reading = std::thread::spawn(move || (file.read(&mut bytes).is_err(), file));
        drop(interrupt);
        let (has_failed, mut file) = reading.join().unwrap();
        assert!(has_failed);
        drop(writer);
        assert!(file.read(&mut bytes).is_err());
    }

    #[test]
    fn reading_ends_at_the_end_of_the_file() {
        let (reader, writer) = io::pipe().unwrap();
        let (mut file, _interrupt) = Interruptible::new(File::from(OwnedFd::from(reader))).unwrap();
        drop(writer);
        assert_eq!(file.read(&mut [0; 8]).unwrap(), 0);
    }
}
