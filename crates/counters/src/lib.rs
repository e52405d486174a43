//! What an unmodified program's waits came to: a book that whoever starts the program makes, with a page for each process that runs
//! with the preloaded library, which writes there while it runs.
//!
//! The book is a file that all of them map. So nothing need be done at the end of a process, and what is written stays
//! when a process is killed, or executes another program: that one has a page of its own.

mod book;
mod environment;
#[allow(unsafe_code)] // What other processes write to is seen as a page.
mod page;
mod subject;

pub use book::{Book, BookError, Entry, Waits};
pub use environment::{Costs, Environment};
pub use page::{Page, Tally};
pub use subject::{Reason, Subject};
