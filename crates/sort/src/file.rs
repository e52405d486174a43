//! Input, output and temporary files.
//!
//! Files bypass the page cache, so that a sort uses no more memory than its budget. An unfinished
//! file has no name, so that nothing of it remains however the process ends.

mod folder;
pub mod input;
pub mod output;
mod reclaim;
pub mod spill;
mod uncached;

/// Files are read and written in multiples of this many bytes, at multiples of it, into
/// page-aligned memory. Only the end of a file may be shorter.
pub const ALIGNMENT: usize = 4096;
