//! The input of a sort: a file or a stream.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use message::Communicator;

use super::ALIGNMENT;
use super::uncached::Uncached;
use crate::error::SortError;

/// The input of a sort. Files and block devices are read by several threads at once, everything
/// else sequentially.
pub struct Input {
    name: String,
    source: Source,
}

enum Source {
    File {
        file: Uncached,
        version: Version,
    },
    /// A reader and its position.
    Stream(Mutex<(Box<dyn Read + Send>, u64)>),
}

/// The state of a file when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    length: u64,
    /// The time of the last modification; `None` for a device.
    changed: Option<(i64, i64)>,
}

impl Version {
    fn of_file(about: &Metadata) -> Version {
        Version { length: about.len(), changed: Some((about.mtime(), about.mtime_nsec())) }
    }

    /// The bytes by which ranks compare what they have opened.
    fn to_bytes(self) -> [u8; 24] {
        let (seconds, nanoseconds) = self.changed.unwrap_or_default();
        let words = [self.length.to_le_bytes(), seconds.to_le_bytes(), nanoseconds.to_le_bytes()];
        std::array::from_fn(|at| words[at / 8][at % 8])
    }
}

impl Input {
    /// Opens a file or anything else with this name that can be read. Opening a named pipe blocks
    /// until a writer opens it.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened or is a folder.
    pub fn open(path: &Path) -> Result<Input, SortError> {
        let name = path.display().to_string();
        let source = File::open(path).and_then(Source::file).map_err(SortError::read(&name))?;
        Ok(Input { name, source })
    }

    /// Opens the standard input. It is read as a file if it is one and its position is at the
    /// beginning.
    ///
    /// # Errors
    /// Returns an error if it is closed or cannot be read.
    pub fn standard() -> Result<Input, SortError> {
        let name = "the standard input".to_owned();
        let shared = rustix::stdio::stdin().try_clone_to_owned().map(File::from);
        let source = shared.and_then(|mut shared| {
            // Opens the file again, because its mode must not change for other processes that share
            // it.
            match shared.stream_position() {
                Ok(0) if shared.metadata()?.is_file() => File::open("/proc/self/fd/0").and_then(Source::file),
                _ => Source::stream_of(shared),
            }
        });
        Ok(Input { source: source.map_err(SortError::read(&name))?, name })
    }

    /// Opens a file that all ranks read, and that all must open by this.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened or is no file, or if it changes until all have
    /// opened it.
    pub fn open_by(world: &Communicator, path: &Path) -> Result<Input, SortError> {
        let input = Input::open(path)?;
        let Source::File { version, .. } = &input.source else {
            let said = format!("{}: several ranks read only files, of which each reads a part", input.name);
            return Err(SortError::Unsupported(said));
        };
        let mut of_first = version.to_bytes();
        world.broadcast(0, &mut of_first)?;
        if of_first != version.to_bytes() {
            return Err(SortError::read(&input.name)(changed()));
        }
        Ok(input)
    }

    /// Reads from any reader. The name is for messages.
    pub fn stream(name: impl Into<String>, reader: impl Read + Send + 'static) -> Input {
        Input { name: name.into(), source: Source::stream(reader) }
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The length in bytes if it is known in advance.
    pub fn length(&self) -> Option<u64> {
        match self.source {
            Source::File { version, .. } => Some(version.length),
            Source::Stream(_) => None,
        }
    }

    /// Whether several threads can read it at any position.
    pub fn is_file(&self) -> bool {
        matches!(self.source, Source::File { .. })
    }

    /// Fills the memory with the bytes from this position on. Returns their number, which is less
    /// than requested only at the end. Access is slower unless position, length and memory are
    /// [aligned](super::ALIGNMENT). A stream must be read in order.
    ///
    /// # Errors
    /// Returns an error from the system, or an error if a file has changed since it was opened.
    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.source {
            Source::File { file, version } => read_file(file, *version, place, into),
            Source::Stream(stream) => {
                read_stream(&mut stream.lock().unwrap_or_else(PoisonError::into_inner), place, into)
            }
        }
    }
}

impl Source {
    fn file(file: File) -> io::Result<Source> {
        let about = file.metadata()?;
        let kind = about.file_type();
        if kind.is_block_device() {
            let length = (&file).seek(SeekFrom::End(0))?;
            return Ok(Source::File { file: Uncached::new(file), version: Version { length, changed: None } });
        }
        // Virtual file systems such as /proc report a length of 0 for files with content.
        if !kind.is_file() || about.len() == 0 && file.read_at(&mut [0], 0)? > 0 {
            return Source::stream_of(file);
        }
        Ok(Source::File { file: Uncached::new(file), version: Version::of_file(&about) })
    }

    fn stream_of(file: File) -> io::Result<Source> {
        if file.metadata()?.is_dir() {
            return Err(sys::files::folder_error());
        }
        Ok(Source::stream(file))
    }

    fn stream(reader: impl Read + Send + 'static) -> Source {
        Source::Stream(Mutex::new((Box::new(reader), 0)))
    }
}

/// Reads a part of a file, and checks that the file has not changed since it was opened.
fn read_file(file: &Uncached, version: Version, place: u64, into: &mut [u8]) -> io::Result<usize> {
    let left = usize::try_from(version.length.saturating_sub(place)).unwrap_or(usize::MAX);
    let wanted = left.min(into.len());
    if wanted == 0 {
        return Ok(0);
    }
    // Direct I/O requires an aligned length even at the end of the file.
    let asked = wanted.next_multiple_of(ALIGNMENT).min(into.len());
    let read = file.read_at(place, &mut into[..asked])?.min(wanted);
    if read < wanted {
        let said = format!("it has become shorter while it was being read: it had {} bytes", version.length);
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
    }
    if version.changed.is_some() && Version::of_file(&file.file.metadata()?) != version {
        return Err(changed());
    }
    Ok(read)
}

fn changed() -> io::Error {
    io::Error::other("it was changed while it was being read")
}

fn read_stream((reader, at): &mut (Box<dyn Read + Send>, u64), place: u64, into: &mut [u8]) -> io::Result<usize> {
    if place != *at {
        let said = format!("it can only be read in order: byte {place} was requested after {at}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
    }
    let mut done = 0;
    while done < into.len() {
        match reader.read(&mut into[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    *at += done as u64;
    Ok(done)
}
