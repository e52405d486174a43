//! The integration tests of `rowlock-exchange`.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a panic fails the test")]

mod rt_app;
mod sched;
