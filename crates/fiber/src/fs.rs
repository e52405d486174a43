//! Files on disks.
//!
//! The kernel cannot wait for a disk as it waits for a socket: a read that is not in memory stops
//! the calling thread. So these functions use [`blocking`]: another kernel thread makes the call,
//! while the fiber waits and others run. That takes some 10 us longer. Everything else in
//! [`std::fs`] can be called in the same way: `blocking(|| std::fs::create_dir_all("a/b"))`. For a
//! pipe or a terminal with a path, [`Pollable`](crate::Pollable) is better.

#![allow(clippy::disallowed_methods, reason = "programs write their own files by these functions")]

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use crate::blocking;

/// The maximum size of one read or write: data on its way is in memory twice.
const MOST: usize = 1 << 20;

/// Reads the whole content of a file.
///
/// # Errors
/// As for [`std::fs::read`].
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref().to_owned();
    blocking(move || std::fs::read(path))
}

/// Reads the whole content of a text file.
///
/// # Errors
/// As for [`std::fs::read_to_string`].
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref().to_owned();
    blocking(move || std::fs::read_to_string(path))
}

/// Writes a file with this content, or replaces the content of an existing one.
///
/// # Errors
/// As for [`std::fs::write`].
pub fn write(path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> io::Result<()> {
    let (path, content) = (path.as_ref().to_owned(), content.into());
    blocking(move || std::fs::write(path, content))
}

/// An open file.
///
/// If a fiber is cancelled during a read or a write, the operation may still take place.
#[derive(Debug)]
pub struct File(Arc<std::fs::File>);

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As for [`std::fs::File::open`].
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        File::open_with(OpenOptions::new().read(true), path)
    }

    /// Opens a file for writing; it is created or truncated.
    ///
    /// # Errors
    /// As for [`std::fs::File::create`].
    pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
        File::open_with(OpenOptions::new().write(true).create(true).truncate(true), path)
    }

    /// Opens a file with these options.
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    pub fn open_with(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
        let (options, path) = (options.clone(), path.as_ref().to_owned());
        blocking(move || options.open(path)).map(File::from_std)
    }

    /// Takes over a file of the standard library.
    pub fn from_std(file: std::fs::File) -> File {
        File(Arc::new(file))
    }

    /// Returns the file of the standard library.
    ///
    /// # Errors
    /// If a call for which no fiber waits is still in progress, and the file cannot be
    /// [duplicated](std::fs::File::try_clone).
    pub fn into_std(self) -> io::Result<std::fs::File> {
        Arc::try_unwrap(self.0).or_else(|file| file.try_clone())
    }

    /// Calls a function with the standard library's file, on another kernel thread.
    ///
    /// ```
    /// # fn length(file: &rowlock_fiber::fs::File) -> std::io::Result<u64> {
    /// file.call(|file| file.metadata()).map(|metadata| metadata.len())
    /// # }
    /// ```
    pub fn call<T: Send + 'static>(&self, function: impl FnOnce(&std::fs::File) -> T + Send + 'static) -> T {
        let file = Arc::clone(&self.0);
        blocking(move || function(&file))
    }

    /// Sends content and metadata to the disk.
    ///
    /// # Errors
    /// As for [`std::fs::File::sync_all`].
    pub fn sync_all(&self) -> io::Result<()> {
        self.call(std::fs::File::sync_all)
    }
}

/// By shared and by exclusive reference.
macro_rules! stream {
    ($($File:ty),*) => {$(
        impl Read for $File {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let mut read = vec![0; buffer.len().min(MOST)];
                let read = self.call(move |mut file| {
                    let length = file.read(&mut read)?;
                    read.truncate(length);
                    Ok::<_, io::Error>(read)
                })?;
                buffer[..read.len()].copy_from_slice(&read);
                Ok(read.len())
            }
        }

        impl Write for $File {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                let written = buffer[..buffer.len().min(MOST)].to_vec();
                self.call(move |mut file| file.write(&written))
            }

            fn flush(&mut self) -> io::Result<()> {
                // Nothing is buffered.
                Ok(())
            }
        }

        impl Seek for $File {
            fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
                // It changes only a number, and does not block.
                (&*self.0).seek(to)
            }
        }
    )*};
}

stream!(File, &File);
