//! Experiments in worlds without a clock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod contract;
mod doubt;
mod fg;
mod mock;
mod page;
mod paper;
mod parallel;
mod pipeline;
mod threads;
mod until;
