//! The integration tests of `sort`, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod columnsort;
mod faulty;
mod files;
mod merge;
mod random;
mod separate_process;
