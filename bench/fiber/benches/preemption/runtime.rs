//! Runtimes with a running time.

use policy::Span;
use policy::feedback::{Boost, FeedbackRules};
use rowlock_fiber::{Config, Runtime};

/// A runtime with this running time. Boosts are rare, because after one, a fiber that wakes has no
/// higher level than the others for a while.
pub(crate) fn runtime(running_time: Span, preemptible: bool, workers: usize) -> Runtime {
    let rules =
        FeedbackRules { running_time, boost: Boost::Every(Span::from_millis(1_000)), ..FeedbackRules::default() };
    Runtime::new(Config { rules, preemptible, workers: workers as u32, ..Config::default() })
}
