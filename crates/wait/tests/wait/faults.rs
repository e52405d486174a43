//! What may happen to threads while they wait: signals, forks, deaths of threads, other CPUs, other
//! quotas, other priorities, and many more threads than CPUs.
#![allow(unsafe_code, reason = "signals, forks and priorities")]

mod crew;
mod exit;
mod placement;
mod priority;
mod signals;

/// Makes tests of functions, each in a process of its own.
macro_rules! tests {
    ($($name:ident => $test:expr,)*) => {
        $(#[test] fn $name() { testing::isolated(|| ($test)()) })*
    };
}
use tests;

/// Says why a test, or a part of it, is not run.
fn skip(what: &str, why: impl std::fmt::Display) {
    println!("skipped: {what}: {why}");
}
