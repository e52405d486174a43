//! The integration tests of `cli`, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod command;
mod exchange;
mod exec;
mod house;
mod paper;
mod paper_fg;
mod paper_threads;
mod pipeline;
mod regress;
mod sort;
mod trace;
mod until;
mod verdict;
