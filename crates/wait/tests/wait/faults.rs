//! Faults during waits: signals, forks, deaths of threads, changes of CPUs, quotas and priorities,
//! and many more threads than CPUs.
#![allow(unsafe_code, reason = "signals, forks and priorities")]

mod exit;
mod placement;
mod priority;
mod signals;
mod workers;

/// Defines tests that run functions, each in its own process.
macro_rules! tests {
    ($($name:ident => $test:expr,)*) => {
        $(#[test] fn $name() { testing::isolated(|| ($test)()) })*
    };
}
use tests;

/// Prints why a test, or a part of it, is skipped.
fn skip(what: &str, why: impl std::fmt::Display) {
    println!("skipped: {what}: {why}");
}
