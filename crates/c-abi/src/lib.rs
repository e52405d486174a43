//! The common part of the libraries for C: how functions take arguments, fail, and tell statistics.
//!
//! A function of C returns a status: zero, or a number of `<errno.h>`. Its message has names and
//! numbers, and is kept for the thread that called. Each library exports the message by a function
//! of its own, because a program may be linked with several.
//!
//! Pointers are optional references: a null pointer is an error and never dereferenced. As usual in
//! C, the caller guarantees that other pointers are valid.

mod argument;
mod failure;
mod statistics;

pub use argument::{Out, create, create_by_rule, given, store, waiting, write};
pub use failure::{Failure, message, status};
pub use statistics::{Statistics, write_statistics};
