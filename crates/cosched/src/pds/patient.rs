//! A connection on which each message has a deadline as a whole: the timeouts of a socket are those
//! of each read, so a byte from time to time would hold a process for ever.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection with a deadline.
#[derive(Debug)]
pub(super) struct Patient {
    pub(super) stream: UnixStream,
    deadline: Option<Instant>,
}

impl Patient {
    /// Reads and writes may take as long as this from now on, all together.
    pub(super) fn new(stream: UnixStream, patience: Duration) -> Patient {
        Patient { stream, deadline: Some(Instant::now() + patience) }
    }

    /// As [`Patient::new`]. `None` means any time.
    pub(super) fn set_patience(&mut self, patience: Option<Duration>) {
        self.deadline = patience.map(|patience| Instant::now() + patience);
    }

    /// The time that is left. Never zero.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(into)
    }
}

impl Write for Patient {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{scope, sleep};

    use super::*;

    const STEP: Duration = Duration::from_millis(10);
    const STEPS: usize = 1000;

    #[test]
    fn a_byte_from_time_to_time_does_not_extend_the_deadline() {
        let (mut other, stream) = UnixStream::pair().unwrap();
        let mut patient = Patient::new(stream, 5 * STEP);
        scope(|scope| {
            scope.spawn(move || (0..STEPS).try_for_each(|_| other.write_all(b"x").map(|()| sleep(STEP))));
            let mut byte = [0];
            let why = (0..STEPS).find_map(|_| patient.read_exact(&mut byte).err()).map(|why| why.kind());
            drop(patient);
            assert!(matches!(why, Some(io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)), "{why:?}");
        });
    }

    #[test]
    fn a_reader_that_takes_a_byte_from_time_to_time_does_not_extend_the_deadline() {
        let (mut other, stream) = UnixStream::pair().unwrap();
        let mut patient = Patient::new(stream, 5 * STEP);
        scope(|scope| {
            let mut some = [0; 4096];
            scope.spawn(move || (0..STEPS).try_for_each(|_| other.read_exact(&mut some).map(|()| sleep(STEP))));
            let why = patient.write_all(&vec![0; some.len() * STEPS]).map_err(|why| why.kind());
            drop(patient);
            assert!(matches!(why, Err(io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)), "{why:?}");
        });
    }
}
