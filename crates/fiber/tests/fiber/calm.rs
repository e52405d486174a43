//! Runtimes whose fibers give up their CPU only when they wait or yield, however slow the machine
//! is: for tests of an order.
#![allow(dead_code, clippy::unwrap_used, reason = "not every test needs both, and one that cannot run has failed")]

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{Config, Runtime};

/// A runtime with one worker and one level.
pub(crate) fn runtime() -> Runtime {
    Runtime::new(config())
}

/// The same, in which it is a deadlock if all fibers wait.
pub(crate) fn closed_runtime() -> Runtime {
    Runtime::new(Config { closed: true, ..config() })
}

fn config() -> Config {
    let rules = FeedbackRules { levels: 1, running_time: Span::from_nanos(u64::MAX >> 1), boost: Boost::Never };
    Config { rules, ..Config::default() }
}

/// Runs a function in such a runtime.
pub(crate) fn run<T>(first: impl FnOnce() -> T) -> T {
    runtime().run(first).unwrap()
}
