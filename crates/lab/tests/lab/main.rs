//! The integration tests of `lab`, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod browser;
mod equals;
mod experiment;
mod explore;
mod nist;
mod trace;
