//! The integration tests of `papers` and of the crates below it, in one program.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod browser;
mod equals;
mod experiment;
mod explore;
mod trace;
