//! Files without a name, which other processes open by a path: nothing has to be removed, and
//! nothing is left if this process is killed.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// A file in memory, which exists as long as this value or a descriptor of it.
#[derive(Debug)]
pub struct UnnamedFile {
    file: File,
    path: PathBuf,
}

impl UnnamedFile {
    /// Creates an empty file.
    ///
    /// # Errors
    /// If there is no memory for it, or no `/proc` in which others could find it.
    pub fn new() -> io::Result<UnnamedFile> {
        let file = File::from(memfd_create(c"rowlock", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        Ok(UnnamedFile { path: path_of(&file)?, file })
    }

    /// Creates a file of this length, full of zeros, which nothing can shorten or lengthen. So no
    /// access to its memory can fail because it became shorter.
    ///
    /// # Errors
    /// As [`UnnamedFile::new`].
    pub fn of_length(length: u64) -> io::Result<UnnamedFile> {
        let unnamed = UnnamedFile::new()?;
        unnamed.file.set_len(length)?;
        fcntl_add_seals(&unnamed.file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(unnamed)
    }

    /// The path by which processes of this user open it while this process lives.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads what others have written, as text.
    ///
    /// # Errors
    /// If it is longer than `longest` bytes, is not UTF-8, or cannot be read.
    pub fn text(&self, longest: u64) -> io::Result<String> {
        let (mut file, mut text) = (&self.file, String::new());
        file.rewind()?;
        // It may grow meanwhile.
        if file.take(longest + 1).read_to_string(&mut text)? as u64 > longest {
            return Err(io::Error::other(format!("it is longer than {longest} bytes")));
        }
        Ok(text)
    }

    /// The file, open for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// The path by which processes of this user open a file that this process has open, while it has.
///
/// # Errors
/// If there is no `/proc` in which others could find it.
pub fn path_of(file: &File) -> io::Result<PathBuf> {
    let missing = |why| io::Error::new(why, "it takes a /proc that shows the descriptors of this process");
    // It may show the processes of another namespace, with other ids.
    let own = fs::read_link("/proc/self").map_err(|why| missing(why.kind()))?;
    let path = Path::new("/proc").join(own).join(format!("fd/{}", file.as_raw_fd()));
    File::open(&path).map_err(|why| missing(why.kind()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processes_open_the_file_by_its_path() {
        let unnamed = UnnamedFile::new().unwrap();
        let mut shell = testing::command("sh");
        testing::run(shell.args(["-c", "echo written >> $0"]).arg(unnamed.path())).expect_success();
        assert_eq!(fs::read_to_string(unnamed.path()).unwrap(), "written\n");
        let path = unnamed.path().to_owned();
        drop(unnamed);
        assert!(File::open(path).is_err());
    }

    #[test]
    fn a_text_that_is_too_long_is_not_read() {
        let unnamed = UnnamedFile::new().unwrap();
        fs::write(unnamed.path(), "four").unwrap();
        assert_eq!([unnamed.text(4).unwrap(), unnamed.text(5).unwrap()], ["four"; 2]);
        assert_eq!(unnamed.text(3).unwrap_err().to_string(), "it is longer than 3 bytes");
        fs::write(unnamed.path(), b"\xff").unwrap();
        assert!(unnamed.text(4).is_err());
    }

    #[test]
    fn a_file_of_a_fixed_length_is_neither_shortened_nor_lengthened() {
        let unnamed = UnnamedFile::of_length(64).unwrap();
        for length in [0, 63, 65] {
            let opened = File::options().write(true).open(unnamed.path()).unwrap();
            assert!(opened.set_len(length).is_err(), "{length}");
        }
        assert!(fs::remove_file(unnamed.path()).is_err());
        assert_eq!(fs::read(unnamed.path()).unwrap(), [0; 64]);
    }
}
