//! How long a thread that finds no buffer yields before it sleeps.
//!
//! Source: our own, modelled on the rule `adaptive-1` of `policy::waiting`. That rule yields only if a
//! whole team waits. At a queue, the thread that will bring the buffer belongs to the same run, and
//! with more threads than CPUs it may wait for this very CPU. Yielding costs one switch. Sleeping
//! and waking cost several times as much, and tens of times on virtual machines.
//!
//! * **Only if recent waits were short.** If the stage before takes a millisecond for a buffer,
//!   yielding would only take CPU time from it.
//! * **Only while no other program takes the CPU.** A yield that lasts a millisecond has run
//!   another program. If this happens twice within a few yields, the thread sleeps immediately for
//!   a while, and longer at each repetition. A single long yield may be noise.
//!
//! After it has yielded without success, a thread sleeps without spinning first.

use policy::{Instant, Span};

/// Yielding pays for waits up to this length: about the time to wake a thread on another CPU where
/// that is slow.
const SHORT: Span = Span::from_micros(100);

/// A thread yields for at most this long.
const BUDGET: Span = Span::from_micros(400);

/// A yield that takes this long has run another program.
const FOREIGN: Span = Span::from_millis(1);

/// For how long a thread then sleeps immediately: the first time, and at most.
const GUARD: (Span, Span) = (Span::from_millis(50), Span::from_millis(1600));

/// The history of a thread's waits.
#[derive(Clone, Debug)]
pub(crate) struct YieldBudget {
    /// The moving average of its waits.
    expected: Span,
    /// Until when it sleeps immediately.
    guarded_until: Instant,
    guard: Span,
    /// The number of yields since the last one that ran another program.
    yields_since: u32,
}

/// Two long yields within this many are not noise.
const FEW: u32 = 64;

impl YieldBudget {
    pub(crate) fn new() -> YieldBudget {
        YieldBudget { expected: Span::ZERO, guarded_until: Instant::from_nanos(0), guard: GUARD.0, yields_since: FEW }
    }

    /// How long a wait that begins now should yield before it sleeps.
    pub(crate) fn budget_at(&self, now: Instant) -> Span {
        if self.expected > SHORT || now < self.guarded_until { Span::ZERO } else { BUDGET }
    }

    /// Records the duration of a yield. Returns whether to stop yielding.
    pub(crate) fn record_yield(&mut self, now: Instant, time: Span) -> bool {
        if time < FOREIGN {
            self.yields_since = self.yields_since.saturating_add(1);
            return false;
        }
        if std::mem::take(&mut self.yields_since) >= FEW {
            return false;
        }
        let long_ago = now > self.guarded_until + GUARD.1;
        self.guard = if long_ago { GUARD.0 } else { (self.guard + self.guard).min(GUARD.1) };
        self.guarded_until = now + self.guard;
        true
    }

    /// Records the total duration of a wait.
    pub(crate) fn record_wait(&mut self, time: Span) {
        // Each wait has a weight of one eighth. The cap lets a few short waits outweigh a long one.
        let time = time.min(Span::from_nanos(SHORT.as_nanos() * 8));
        self.expected = Span::from_nanos((self.expected.as_nanos() * 7 + time.as_nanos()) / 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(10_000_000_000);

    #[test]
    fn a_thread_yields_only_while_its_waits_are_short() {
        let mut yield_budget = YieldBudget::new();
        assert_eq!(yield_budget.budget_at(START), BUDGET);
        (0..3).for_each(|_| yield_budget.record_wait(Span::from_millis(1)));
        assert_eq!(yield_budget.budget_at(START), Span::ZERO);
        (0..20).for_each(|_| yield_budget.record_wait(Span::from_micros(40)));
        assert_eq!(yield_budget.budget_at(START), BUDGET);
    }

    #[test]
    fn repeated_long_yields_make_a_thread_sleep_immediately_for_longer_and_longer() {
        let (tick, short) = (Span::from_millis(4), Span::from_micros(30));
        let after = |now, millis| now + Span::from_millis(millis);
        let mut yield_budget = YieldBudget::new();
        let yields = [short, tick, short, tick].map(|time| yield_budget.record_yield(START, time));
        assert_eq!(yields, [false, false, false, true], "a single long yield may be noise");
        assert_eq!(yield_budget.budget_at(after(START, 49)), Span::ZERO);
        let again = after(START, 51);
        assert_eq!(yield_budget.budget_at(again), BUDGET);
        assert!(yield_budget.record_yield(again, tick));
        assert_eq!(yield_budget.budget_at(after(again, 99)), Span::ZERO);
        let mut now = again;
        for _ in 0..20 {
            now = after(now, 1601);
            yield_budget.record_yield(now, tick);
        }
        assert_eq!(yield_budget.budget_at(after(now, 1599)), Span::ZERO);
        // After a long quiet period, the guard is short again.
        now = after(now, 10_000);
        yield_budget.record_yield(now, tick);
        assert_eq!(yield_budget.budget_at(after(now, 101)), BUDGET);
    }

    #[test]
    fn an_occasional_long_yield_changes_nothing() {
        let mut yield_budget = YieldBudget::new();
        for _ in 0..20 {
            assert!(!yield_budget.record_yield(START, Span::from_millis(4)));
            assert!((0..FEW).all(|_| !yield_budget.record_yield(START, Span::from_micros(3))));
        }
    }
}
