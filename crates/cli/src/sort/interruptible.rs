//! Reading what may have nothing to read for a long time, a pipe or a terminal, without missing that it is time to stop.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};

use rustix::event::{PollFd, PollFlags, poll};

/// A file that is read until somebody interrupts that.
pub(super) struct Interruptible {
    file: File,
    /// Ends with its other side, the [`Interrupt`].
    interrupted: PipeReader,
}

/// As long as it is there, the file is read; once it is dropped, reading fails.
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
    fn it_reads_until_the_end_and_fails_once_it_is_interrupted() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (mut file, interrupt) = Interruptible::new(File::from(OwnedFd::from(reader))).unwrap();
        writer.write_all(b"some").unwrap();
        let mut bytes = [0; 8];
        assert_eq!(file.read(&mut bytes).unwrap(), 4);
        // Nothing comes any more, and the writer is still there.
        let reading = std::thread::spawn(move || (file.read(&mut bytes).is_err(), file));
        drop(interrupt);
        let (has_failed, mut file) = reading.join().unwrap();
        assert!(has_failed);
        drop(writer);
        assert!(file.read(&mut bytes).is_err());
    }

    #[test]
    fn the_end_is_an_end() {
        let (reader, writer) = io::pipe().unwrap();
        let (mut file, _interrupt) = Interruptible::new(File::from(OwnedFd::from(reader))).unwrap();
        drop(writer);
        assert_eq!(file.read(&mut [0; 8]).unwrap(), 0);
    }
}
