//! The integration tests of `pipeline`, in one program.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

mod cancelling;
mod counts;
mod documentation;
mod doubling;
mod ends;
mod examples;
mod faults;
mod junctions;
mod soak;
mod structures;
mod traces;
mod turns;
