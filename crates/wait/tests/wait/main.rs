//! The integration tests of `wait`, in one program.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot continue has failed"
)]
#![cfg(not(loom))]

mod arrivals;
mod barrier;
mod condvar;
mod costs;
mod faults;
mod guest;
mod mutex;
mod rwlock;
mod signals;
mod stress;
mod team;
