//! Files: what is sorted, where it goes, and what does not fit into memory in between.
//!
//! Files are read and written past the page cache, so that the memory which a sort is given is all that it uses. What is not
//! finished has no name, so that nothing remains of it however the process ends.

mod folder;
pub mod input;
pub mod output;
mod reclaim;
mod replacement;
pub mod spill;
mod uncached;
mod unnamed;

/// Files are read and written in multiples of this many bytes, from multiples on, into memory that begins with a page; only their ends may be shorter.
pub const ALIGNMENT: usize = 4096;

/// How bytes get from and to where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// By direct I/O: the disk reads and writes the program's memory.
    Direct,
    /// Through the page cache, of which a few MiB at a time are used: the file system has no direct I/O.
    Cached,
    /// The file system keeps its files in memory, beyond what the sort is given.
    Memory,
    /// One after the other, as pipes and terminals want it.
    Stream,
}

/// As it is said to people.
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
