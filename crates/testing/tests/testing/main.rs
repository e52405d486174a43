//! The integration tests of `testing`, in one program.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod runner;
mod scripts;
mod seeds;
mod stamped;
