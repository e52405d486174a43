//! Input, output and temporary files.
//!
//! Files bypass the page cache, so that a sort uses no more memory than its budget. An unfinished
//! file has no name, so that nothing of it remains however the process ends.

mod folder;
pub mod input;
pub mod output;
mod reclaim;
mod replacement;
pub mod spill;
mod uncached;
mod unnamed;

/// Files are read and written in multiples of this many bytes, at multiples of it, into
/// page-aligned memory. Only the end of a file may be shorter.
pub const ALIGNMENT: usize = 4096;

/// How a file is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// Direct I/O: the disk transfers data to and from the program's memory.
    Direct,
    /// Through the page cache, of which a few MiB at a time are used, because the file system has
    /// no direct I/O.
    Cached,
    /// The file system keeps its files in memory, in addition to the budget of the sort.
    Memory,
    /// Sequentially, as pipes and terminals require.
    Stream,
}

/// Writes the description for users.
impl std::fmt::Display for IoMode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            IoMode::Direct => "direct I/O",
            IoMode::Cached => "page cache",
            IoMode::Memory => "files in memory",
            IoMode::Stream => "stream",
        })
    }
}

fn folder_error() -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder")
}
