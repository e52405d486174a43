//! Waits at objects that are not of this library: of the C library, of a run-time system, of a message library.
//!
//! Whoever wants to wait there tells how to look whether what is awaited has come, and how to sleep where that is possible, and
//! the rule decides as everywhere. What the rule remembers, and what waiting comes to, is kept where the caller says.

use std::sync::atomic::AtomicU64;

use policy::record::Off;
use policy::waiting::Waiter;
use policy::{Instant, Span, ThreadId};

pub use crate::protocol::wait_loop::Awaited;

use crate::protocol::wait_loop::Wait;
use crate::statistics::Counters;
use crate::waiting::Waiting;

/// A place to wait at.
#[derive(Clone, Copy, Debug)]
pub struct ExternalObject<'a> {
    /// The rule's memory that all who wait here share; zero at first.
    pub state: &'a AtomicU64,
    /// Where it is counted what waiting comes to.
    pub counters: &'a Counters,
    /// How it is waited.
    pub waiting: Waiting,
    /// How many threads work together here, each waiting for the others; zero where nobody knows, as at a lock.
    pub threads: u32,
}

impl ExternalObject<'_> {
    /// What a thread keeps from wait to wait at such places. Where no costs were given, the adaptive rule goes by what others have
    /// measured, or else by what is typical.
    pub fn waiter(waiting: &Waiting) -> Waiter {
        waiting.waiter_without_measuring()
    }

    /// Waits until it has come. The caller has looked already.
    pub fn wait(&self, waiter: &mut Waiter, awaited: &mut impl Awaited) {
        self.wait_until(None, waiter, awaited);
    }

    /// Waits until it has come, or the deadline has passed.
    fn wait_until(&self, deadline: Option<Instant>, waiter: &mut Waiter, awaited: &mut impl Awaited) {
        let wait = Wait {
            thread: ThreadId(0),
            threads: self.threads,
            cpus: self.waiting.cpus(),
            movable: self.waiting.movable(),
            state: self.state,
            counters: self.counters,
            recorder: &Off,
            deadline,
        };
        // Who looks knows whether it has come.
        let _ = wait.run(awaited, waiter, &mut ());
    }

    /// The first phase of a wait whose second, to sleep, is somebody else's: looks until it has come, or the rule would
    /// block, or the deadline has passed, for rules that never do. Returns whether it has come. The caller has looked already.
    ///
    /// Where it has not, the caller sleeps, and says how long by [`Counters::add_block_time`]. Allocates no memory if the number of CPUs is
    /// given ([`Waiting::with_cpus`]) and the rule does not want to know the load.
    pub fn wait_without_blocking(&self, deadline: Option<Instant>, poll: impl FnMut() -> bool) -> bool {
        let mut look = NonBlockingPhase { poll, came: false, ends: false };
        self.wait_until(deadline, &mut Self::waiter(&self.waiting), &mut look);
        if !look.came && !look.ends {
            self.counters.merge(&crate::Statistics { blocks: 1, ..Default::default() });
        }
        look.came
    }
}

impl Counters {
    /// Adds the time of a sleep that has been counted already.
    pub fn add_block_time(&self, time: Span) {
        self.merge(&crate::Statistics { block_time: time, ..Default::default() });
    }
}

/// Something to look for, but not to sleep for.
struct NonBlockingPhase<F> {
    poll: F,
    came: bool,
    /// The rule would have blocked.
    ends: bool,
}

impl<F: FnMut() -> bool> Awaited for NonBlockingPhase<F> {
    fn poll(&mut self) -> bool {
        self.came = self.came || (!self.ends && (self.poll)());
        self.came || self.ends
    }

    fn sleep(&mut self, _: Option<Instant>) {
        self.ends = true;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use policy::waiting::WaitingRule;

    use super::*;
    use crate::Statistics;

    fn statistics(rule: WaitingRule, poll: impl FnMut() -> bool) -> (bool, Statistics) {
        statistics_until(None, rule, poll)
    }

    fn statistics_until(
        deadline: Option<Instant>,
        rule: WaitingRule,
        poll: impl FnMut() -> bool,
    ) -> (bool, Statistics) {
        let (state, counters, mut sum) = (AtomicU64::new(0), Counters::new(), Statistics::default());
        let object = ExternalObject { state: &state, counters: &counters, waiting: Waiting::by(rule), threads: 0 };
        let came = object.wait_without_blocking(deadline, poll);
        counters.add_block_time(Span::from_micros(3));
        counters.add_to(&mut sum);
        (came, sum)
    }

    #[test]
    fn the_first_phase_ends_when_it_has_come() {
        let mut looks = 0;
        let third = || {
            looks += 1;
            looks == 3
        };
        let (came, sum) = statistics(WaitingRule::AlwaysSpin, third);
        assert!(came);
        assert_eq!((sum.spins, sum.successful_spins, sum.blocks), (1, 1, 0));
    }

    #[test]
    fn the_first_phase_ends_with_its_deadline_where_the_rule_would_never_block() {
        for rule in [WaitingRule::AlwaysSpin, WaitingRule::AlwaysYield] {
            let (came, sum) = statistics_until(Some(Instant::ZERO), rule, || false);
            assert!(!came);
            assert_eq!((sum.successful_spins, sum.blocks), (0, 1), "{rule}");
        }
    }

    #[test]
    fn the_first_phase_ends_where_the_rule_would_block() {
        let (came, sum) = statistics(WaitingRule::AlwaysBlock, || panic!("nobody looks"));
        assert!(!came);
        assert_eq!((sum.spins, sum.blocks), (0, 1));
        assert!(sum.block_time >= Span::from_micros(3));
        let (came, sum) = statistics(WaitingRule::Adaptive, || false);
        assert!(!came);
        assert_eq!((sum.spins, sum.successful_spins, sum.blocks), (1, 0, 1));
    }
}
