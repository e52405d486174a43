//! Costs of a hypothetical machine, for tests that measure nothing.

use policy::Span;
use policy::waiting::{Costs, WaitingRule};
use rowlock_wait::Waiting;

pub(crate) const COSTS: Costs = Costs {
    cs: Span::from_micros(10),
    margin: Span::from_micros(5),
    lone_yield: Span::from_nanos(500),
    tick: Span::from_millis(4),
};

/// By this rule on that machine.
pub(crate) fn by(rule: WaitingRule) -> Waiting {
    Waiting::by(rule).with_costs(COSTS)
}
