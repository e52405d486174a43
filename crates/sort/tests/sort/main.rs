//! The integration tests of `rowlock-sort`.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

mod columnsort;
mod faulty;
mod files;
mod limits;
mod merge;
mod random;
mod ranks;
mod separate_process;
