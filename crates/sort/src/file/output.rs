//! The output of a sort. A file appears only when it is complete and flushed.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use message::Communicator;
use sys::files::{self, Replacement};
use sys::unnamed;

use super::folder::Folder;
use super::uncached::Uncached;
use crate::error::SortError;
use crate::ranks::Ranks;

/// The output of a sort. An unfinished file leaves no trace.
pub struct Output {
    name: String,
    target: Target,
}

enum Target {
    File(Box<OutputFile>),
    /// A writer and its position.
    Stream(Mutex<(Box<dyn Write + Send>, u64)>),
}

struct OutputFile {
    folder: Folder,
    file: Uncached,
    /// `None` if another rank has created the file, and will give it its name.
    replacement: Option<Replacement>,
}

impl Output {
    /// Creates a file that replaces the target when it is finished, and not before. The new file
    /// gets owner and permissions of the old one as far as the process may set them. If the target
    /// is a symbolic link, the file that it points to is replaced. A target that is not a regular
    /// file is written to directly. Leftovers of killed processes are removed from the folder.
    ///
    /// The target may be the input: a reader that has it open can still read it.
    ///
    /// # Errors
    /// Returns an error if no file can be created, if it could not replace the target, or if
    /// [another user](sys::files) may have planted what is there.
    pub fn create(path: &Path) -> Result<Output, SortError> {
        let name = path.display().to_string();
        let target = files::Target::create(path).and_then(|target| match target {
            files::Target::File(file) => OutputFile::new(*file).map(|file| Target::File(Box::new(file))),
            files::Target::Stream(stream) => Ok(Target::stream(stream)),
        });
        Ok(Output { target: target.map_err(SortError::write(&name))?, name })
    }

    /// Creates a file of which all ranks write parts, and that all must create by this. The first
    /// rank creates and finishes it, as [`Output::create`] describes; the others open it.
    ///
    /// # Errors
    /// As [`Output::create`], and if the target is no file or cannot be opened by other ranks.
    pub fn create_by(world: &Communicator, path: &Path) -> Result<Output, SortError> {
        let name = path.display().to_string();
        let (mut created, mut opened) = (None, PathBuf::new());
        if Ranks::of(world).is_first() {
            let output = Output::create(path)?;
            let Target::File(file) = &output.target else {
                let said = format!("{name}: several ranks write only files, of which each writes a part");
                return Err(SortError::Unsupported(said));
            };
            opened = unnamed::path_of(&file.file.file).map_err(SortError::write(&name))?;
            created = Some(output);
        }
        let opened = world.all_gather_texts(opened.as_os_str())?.swap_remove(0);
        let open = || {
            let file = OutputFile::of_other_rank(Path::new(&opened), path).map_err(SortError::write(&name))?;
            Ok(Output { name, target: Target::File(Box::new(file)) })
        };
        let output = created.map_or_else(open, Ok::<_, SortError>)?;
        // The file is open in all ranks before the first one closes it, or fails.
        world.barrier()?;
        Ok(output)
    }

    /// Opens the standard output.
    ///
    /// # Errors
    /// Returns an error if it is closed.
    pub fn standard() -> Result<Output, SortError> {
        let name = "the standard output".to_owned();
        let shared = rustix::stdio::stdout().try_clone_to_owned().map_err(SortError::write(&name))?;
        Ok(Output::stream(name, File::from(shared)))
    }

    /// Writes to any writer. The name is for messages.
    pub fn stream(name: impl Into<String>, writer: impl Write + Send + 'static) -> Output {
        Output { name: name.into(), target: Target::stream(writer) }
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether several threads can write it at any position.
    pub fn is_file(&self) -> bool {
        matches!(self.target, Target::File(_))
    }

    /// Announces the number of bytes to be written, to detect a full disk early. Has no effect on
    /// streams.
    ///
    /// # Errors
    /// Returns an error if there is not enough space.
    pub fn expect(&self, length: u64) -> Result<(), SortError> {
        match &self.target {
            Target::File(file) => file.folder.expect(length).map_err(SortError::write(&self.name)),
            Target::Stream(_) => Ok(()),
        }
    }

    /// Writes all bytes at this position. Position, length and memory must be
    /// [aligned](super::ALIGNMENT), except for the length of the last part. A stream must be
    /// written in order.
    pub fn write_at(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.target {
            Target::File(file) => file.folder.write_at(&file.file, place, bytes),
            Target::Stream(stream) => {
                let (writer, at) = &mut *stream.lock().unwrap_or_else(PoisonError::into_inner);
                if place != *at {
                    let said = format!("it can only be written in order: byte {place} was written after {at}");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, said));
                }
                writer.write_all(bytes)?;
                *at += bytes.len() as u64;
                Ok(())
            }
        }
    }

    /// Reads written bytes back from a file, like [`Input::read_at`](super::input::Input::read_at).
    /// The last part may be followed by zeros up to the next multiple of the alignment.
    ///
    /// # Errors
    /// Returns an error from the system, or if the output is not a file.
    pub fn read_at(&self, place: u64, into: &mut [u8]) -> io::Result<usize> {
        match &self.target {
            Target::File(file) => file.file.read_at(place, into),
            Target::Stream(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Completes an output of this length: flushes it and gives a file its name.
    ///
    /// # Errors
    /// Returns an error if it cannot be flushed or renamed. The target is unchanged then, unless
    /// only flushing the folder failed.
    pub fn finish(self, length: u64) -> Result<(), SortError> {
        let Output { name, target } = self;
        let finished = match target {
            Target::File(file) => file.finish(length),
            Target::Stream(stream) => match stream.into_inner().unwrap_or_else(PoisonError::into_inner) {
                (mut writer, at) if at == length => writer.flush(),
                (_, at) => {
                    let said = format!("{at} bytes were written instead of {length}");
                    Err(io::Error::new(io::ErrorKind::InvalidInput, said))
                }
            },
        };
        finished.map_err(SortError::write(&name))
    }
}

impl OutputFile {
    fn new(replacement: Replacement) -> io::Result<OutputFile> {
        let file = Uncached::new(replacement.file().try_clone()?);
        Ok(OutputFile { folder: Folder::new(replacement.folder().clone()), file, replacement: Some(replacement) })
    }

    /// The file that another rank has created, by its path there.
    fn of_other_rank(opened: &Path, target: &Path) -> io::Result<OutputFile> {
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = Folder::new(files::Folder::open(folder)?);
        Ok(OutputFile { folder, file: Uncached::new(files::open_existing(opened)?), replacement: None })
    }

    fn finish(self, length: u64) -> io::Result<()> {
        self.file.file.set_len(length)?;
        self.file.sync().map_err(|why| self.folder.explain(why))?;
        self.replacement.map_or(Ok(()), Replacement::finish)
    }
}

impl Target {
    fn stream(writer: impl Write + Send + 'static) -> Target {
        Target::Stream(Mutex::new((Box::new(writer), 0)))
    }
}
