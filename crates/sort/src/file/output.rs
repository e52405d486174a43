//! Where the sorted records go. A file appears only when it is whole and flushed.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::IoMode;
use super::replacement::Replacement;
use crate::error::SortError;

/// Where the sorted records go. What is not finished leaves no trace.
pub struct Output {
    name: String,
    target: Target,
}

enum Target {
    File(Box<Replacement>),
    Stream(Mutex<Stream>),
}

/// A writer, and how many bytes have gone to it.
struct Stream {
    writer: Box<dyn Write + Send>,
    place: u64,
}

impl Output {
    /// A file of this name, which replaces what is there when it is finished, and not before. What is replaced lends it owner and permissions, as far
    /// as is allowed; a symbolic link stays, and what it points to is replaced. What is there and no file is written to as it is. Leftovers
    /// of killed processes are removed from the folder.
    ///
    /// It may be what is sorted: that stays readable for those who have it open.
    ///
    /// # Errors
    /// Where none can be made, or it could not be given this name.
    pub fn create(path: &Path) -> Result<Output, SortError> {
        if ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|standard| path == Path::new(standard)) {
            return Output::standard();
        }
        let name = path.display().to_string();
        let target = match std::fs::metadata(path) {
            Ok(about) if !about.is_file() && !about.is_dir() => {
                File::options().write(true).open(path).map(Target::stream)
            }
            _ => Replacement::create(path).map(|file| Target::File(Box::new(file))),
        };
        match target {
            Ok(target) => Ok(Output { name, target }),
            Err(why) => Err(SortError::Write { what: name, why }),
        }
    }

    /// The standard output.
    ///
    /// # Errors
    /// Where it is closed.
    pub fn standard() -> Result<Output, SortError> {
        let name = "the standard output".to_owned();
        match rustix::stdio::stdout().try_clone_to_owned() {
            Ok(shared) => Ok(Output { name, target: Target::stream(File::from(shared)) }),
            Err(why) => Err(SortError::Write { what: name, why }),
        }
    }

    /// What takes all that is written; the name is for messages.
    pub fn stream(name: impl Into<String>, writer: impl Write + Send + 'static) -> Output {
        Output { name: name.into(), target: Target::stream(writer) }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it can be written to anywhere, by several threads at once.
    pub fn is_file(&self) -> bool {
        matches!(self.target, Target::File(_))
    }

    /// How it is written.
    pub fn io_mode(&self) -> IoMode {
        match &self.target {
            Target::File(file) => file.io_mode(),
            Target::Stream(_) => IoMode::Stream,
        }
    }

    /// Says how many bytes will be written, before they are, so that a disk without room for them is found out at once. What
    /// is no file takes what it gets.
    ///
    /// # Errors
    /// Where there is no room.
    pub fn expect(&self, length: u64) -> Result<(), SortError> {
        match &self.target {
            Target::File(file) => file.expect(length).map_err(|why| self.failed(why)),
            Target::Stream(_) => Ok(()),
        }
    }

    /// Writes all of it to this place. Place, length and memory are [aligned](super::ALIGNMENT), but for the length of the last part. What is no file
    /// must be given one part after the other.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.target {
            Target::File(file) => file.write_at(place, bytes),
            Target::Stream(stream) => stream.lock().unwrap_or_else(PoisonError::into_inner).write_at(place, bytes),
        }
    }

    /// Reads back what was written, as [`Input::read_at`](super::input::Input::read_at) does; for files. After the last part there may be zeroes up
    /// to the next multiple of the alignment.
    ///
    /// # Errors
    /// What the system says; that it is no file.
    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.target {
            Target::File(file) => file.read_at(place, into),
            Target::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Says that all is written, so many bytes: it is flushed, and a file gets its name.
    ///
    /// # Errors
    /// Where it cannot be flushed or have its name. The target is as it was then; only that the new name itself is on the disk may be what failed.
    pub fn finish(self, length: u64) -> Result<(), SortError> {
        let Output { name, target } = self;
        let finished = match target {
            Target::File(file) => file.finish(length),
            Target::Stream(stream) => stream.into_inner().unwrap_or_else(PoisonError::into_inner).finish(length),
        };
        finished.map_err(|why| SortError::Write { what: name, why })
    }

    fn failed(&self, why: io::Error) -> SortError {
        SortError::Write { what: self.name.clone(), why }
    }
}

impl Target {
    fn stream(writer: impl Write + Send + 'static) -> Target {
        Target::Stream(Mutex::new(Stream { writer: Box::new(writer), place: 0 }))
    }
}

impl Stream {
    fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        if place != self.place {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("it can only be written in order: byte {place} was to come after {}", self.place),
            ));
        }
        self.writer.write_all(bytes)?;
        self.place += bytes.len() as u64;
        Ok(())
    }

    fn finish(mut self, length: u64) -> io::Result<()> {
        if length != self.place {
            let said = format!("{} bytes were written, and {length} should have been", self.place);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
        }
        self.writer.flush()
    }
}
