//! A server of PMIx for the ranks of one job on this machine: they learn from it how many they are
//! and where, exchange addresses by it, and ask it to end the job.
//!
//! It is libpmix that talks to them, by a protocol that is private to its versions. The library is
//! loaded at run time ([`Library`]), so a program that uses this crate also runs where there is
//! none. Its C interface is declared here (`interface`) from the public standard, and compared with
//! the library that is found.
//!
//! libpmix starts threads, opens sockets and has one server per process, which nothing can replace
//! in the same process afterwards. So [`Server`] belongs in a process of its own.

mod attributes;
#[allow(unsafe_code)] // Functions that C code calls, with pointers of C code.
mod callbacks;
mod event;
mod interface;
#[allow(unsafe_code)] // Loads a C library, and takes its symbols for functions.
mod library;
#[allow(unsafe_code)] // Calls functions of a C library.
mod server;

pub use event::{Call, Event};
pub use library::{Library, LoadError, VARIABLE};
pub use server::{Job, Server, ServerError};
