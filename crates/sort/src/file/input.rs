//! What is sorted: a file, or what comes from a pipe.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::uncached::Uncached;
use super::{ALIGNMENT, IoMode};
use crate::error::SortError;

/// What is sorted. It is read by several threads at once if it is a file or a block device, and from its beginning to its end if it is not.
pub struct Input {
    name: String,
    source: Source,
}

enum Source {
    File { file: Uncached, version: Version },
    Stream(Mutex<Stream>),
}

/// A reader, and how many bytes have come from it.
struct Stream {
    reader: Box<dyn Read + Send>,
    place: u64,
}

/// What a file looked like when it was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    length: u64,
    /// When its content was changed, which is not to be had of a device.
    changed: Option<(i64, i64)>,
}

impl Version {
    fn of_file(about: &Metadata) -> Version {
        Version { length: about.len(), changed: Some((about.mtime(), about.mtime_nsec())) }
    }
}

impl Input {
    /// A file, or whatever of this name can be read. Opening a named pipe waits for somebody to write to it.
    ///
    /// # Errors
    /// Where it cannot; of a folder.
    pub fn open(path: &Path) -> Result<Input, SortError> {
        let name = path.display().to_string();
        match File::open(path).and_then(Source::file) {
            Ok(source) => Ok(Input { name, source }),
            Err(why) => Err(SortError::Read { what: name, why }),
        }
    }

    /// The standard input, which is read as a file if it is one from its beginning on.
    ///
    /// # Errors
    /// Where it is closed or cannot be read.
    pub fn standard() -> Result<Input, SortError> {
        let name = "the standard input".to_owned();
        let shared = rustix::stdio::stdin().try_clone_to_owned().map(File::from);
        let source = shared.and_then(|mut shared| {
            // How it is read must not be changed for those with whom it is shared, so it is opened once more.
            match shared.stream_position() {
                Ok(0) if shared.metadata()?.is_file() => File::open("/proc/self/fd/0").and_then(Source::file),
                _ => Source::stream_of(shared),
            }
        });
        source.map(|source| Input { name: name.clone(), source }).map_err(|why| SortError::Read { what: name, why })
    }

    /// What any reader gives; the name is for messages.
    pub fn stream(name: impl Into<String>, reader: impl Read + Send + 'static) -> Input {
        Input { name: name.into(), source: Source::stream(reader) }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes it has, where that is known before it is read.
    pub fn length(&self) -> Option<u64> {
        match self.source {
            Source::File { version, .. } => Some(version.length),
            Source::Stream(_) => None,
        }
    }

    /// Whether it can be read from anywhere, by several threads at once.
    pub fn is_file(&self) -> bool {
        matches!(self.source, Source::File { .. })
    }

    /// How it is read.
    pub fn io_mode(&self) -> IoMode {
        match &self.source {
            Source::File { file, .. } => file.io_mode(),
            Source::Stream(_) => IoMode::Stream,
        }
    }

    /// Fills the memory with what is there from this place on, and returns how many bytes that was: less than asked for only at the end. Place, length and memory are
    /// [aligned](super::ALIGNMENT), or it takes longer. What is no file must be asked for one part after the other.
    ///
    /// # Errors
    /// What the system says; of a file, also that it is not what it was when it was opened.
    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.source {
            Source::File { file, version } => read_file(file, *version, place, into),
            Source::Stream(stream) => stream.lock().unwrap_or_else(PoisonError::into_inner).read_at(place, into),
        }
    }
}

impl Source {
    fn file(file: File) -> io::Result<Source> {
        let about = file.metadata()?;
        let kind = about.file_type();
        if kind.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        if kind.is_block_device() {
            let length = (&file).seek(SeekFrom::End(0))?;
            return Ok(Source::File { file: Uncached::new(file), version: Version { length, changed: None } });
        }
        // Some file systems that show what the kernel knows, such as /proc, call files empty that are not.
        if !kind.is_file() || about.len() == 0 && file.read_at(&mut [0], 0)? > 0 {
            return Source::stream_of(file);
        }
        Ok(Source::File { file: Uncached::new(file), version: Version::of_file(&about) })
    }

    fn stream_of(file: File) -> io::Result<Source> {
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        Ok(Source::stream(file))
    }

    fn stream(reader: impl Read + Send + 'static) -> Source {
        Source::Stream(Mutex::new(Stream { reader: Box::new(reader), place: 0 }))
    }
}

/// Reads a part of a file, which must be the version that was opened, before and afterwards.
fn read_file(file: &Uncached, version: Version, place: u64, into: &mut [u8]) -> io::Result<usize> {
    let left = usize::try_from(version.length.saturating_sub(place)).unwrap_or(usize::MAX);
    let wanted = left.min(into.len());
    if wanted == 0 {
        return Ok(0);
    }
    // Direct I/O reads no less than this of the file's end.
    let asked = wanted.next_multiple_of(ALIGNMENT).min(into.len());
    let read = file.read_at(place, &mut into[..asked])?.min(wanted);
    if read < wanted {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("it has become shorter while it was being read: it had {} bytes", version.length),
        ));
    }
    if version.changed.is_some() && Version::of_file(&file.file().metadata()?) != version {
        return Err(io::Error::other("it was changed while it was being read"));
    }
    Ok(read)
}

impl Stream {
    fn read_at(&mut self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        if place != self.place {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("it can only be read in order: byte {place} was asked for after {}", self.place),
            ));
        }
        let mut done = 0;
        while done < into.len() {
            match self.reader.read(&mut into[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        self.place += done as u64;
        Ok(done)
    }
}
