//! Waits for events of other libraries: the C library, a run-time system, a message library.
//!
//! The caller provides a poll, and a way to block if there is one. The waiting rule decides as for
//! the objects of this crate. The caller also stores the rule's state and the counters.

use std::sync::atomic::AtomicU64;

use policy::record::Off;
use policy::waiting::{Missing, Waiter};
use policy::{Instant, Span, ThreadId};

pub use crate::protocol::wait_loop::{Awaited, LIVENESS_INTERVAL};

use crate::deadline::TimedOut;
use crate::protocol::wait_loop::Wait;
use crate::statistics::Counters;
use crate::sync;
use crate::waiting::Waiting;

/// A missing thread, for [`Awaited::missing`], if threads share CPUs and it is unknown which one is
/// missing. It may well need the CPU of the waiting one.
#[derive(Clone, Copy, Debug)]
pub struct UnknownThread([Missing; 1]);

impl UnknownThread {
    /// It was never seen.
    pub const fn new() -> UnknownThread {
        UnknownThread([Missing { thread: ThreadId(1), last_seen: None }])
    }

    /// Assumes that it was last seen on the CPU of the calling thread.
    pub fn assume_here(&mut self) -> &[Missing] {
        self.0[0].last_seen = Some(sync::current_cpu());
        &self.0
    }
}

impl Default for UnknownThread {
    fn default() -> UnknownThread {
        UnknownThread::new()
    }
}

/// An object of another library at which threads wait.
#[derive(Clone, Copy, Debug)]
pub struct ExternalObject<'a> {
    /// The rule's state, shared by all waiters of the object. Zero at first.
    pub state: &'a AtomicU64,
    /// Counts the waits.
    pub counters: &'a Counters,
    /// How threads wait.
    pub waiting: Waiting,
    /// The size of the team whose threads wait for each other here. Zero if unknown, as for a lock.
    pub threads: u32,
}

impl ExternalObject<'_> {
    /// The state of a thread across its waits. If no costs are given, the adaptive rule uses costs
    /// that have been measured already, or typical ones.
    pub fn waiter(waiting: &Waiting) -> Waiter {
        waiting.waiter_without_measuring()
    }

    /// The number of CPUs that the rule is told.
    pub fn cpus(&self) -> u32 {
        self.waiting.cpus_at(sync::now())
    }

    /// Waits until the event has occurred. The caller has polled once.
    pub fn wait(&self, waiter: &mut Waiter, awaited: &mut impl Awaited) {
        // The caller knows from its poll whether the event has occurred.
        let _ = self.wait_until(None, None, waiter, awaited);
    }

    /// Waits until the event has occurred or has become impossible. `is_possible` is asked every
    /// [`LIVENESS_INTERVAL`]. Returns whether the event has occurred. The caller has polled once.
    pub fn wait_while_possible(
        &self,
        is_possible: &dyn Fn() -> bool,
        waiter: &mut Waiter,
        awaited: &mut impl Awaited,
    ) -> bool {
        self.wait_until(None, Some(is_possible), waiter, awaited).is_ok()
    }

    /// Waits until the event has occurred or has become impossible, or the deadline passes.
    fn wait_until(
        &self,
        deadline: Option<Instant>,
        is_possible: Option<&dyn Fn() -> bool>,
        waiter: &mut Waiter,
        awaited: &mut impl Awaited,
    ) -> Result<(), TimedOut> {
        let wait = Wait {
            thread: ThreadId(0),
            threads: self.threads,
            round: 0,
            waiting: &self.waiting,
            state: self.state,
            counters: self.counters,
            recorder: &Off,
            is_possible,
            deadline,
        };
        wait.run(awaited, waiter, &mut ())
    }

    /// The first phase of a two-phase wait whose second phase, blocking, is done by the caller.
    /// Polls until the event has occurred or the rule decides to block. Rules that never block stop
    /// at the deadline. Returns whether the event has occurred. The caller has polled once.
    ///
    /// If the event has not occurred, the caller blocks, and reports for how long by
    /// [`Counters::add_block_time`]. Allocates no memory if the number of CPUs is given
    /// ([`Waiting::with_cpus`]) and the rule does not need the load.
    pub fn wait_without_blocking(&self, deadline: Option<Instant>, poll: impl FnMut() -> bool) -> bool {
        let mut phase = NonBlockingPhase { poll, occurred: false, would_block: false };
        // The phase itself knows how it ended.
        let _ = self.wait_until(deadline, None, &mut Self::waiter(&self.waiting), &mut phase);
        if !phase.occurred && !phase.would_block {
            self.counters.merge(&crate::Statistics { blocks: 1, ..Default::default() });
        }
        phase.occurred
    }
}

impl Counters {
    /// Adds the duration of a block that has been counted already.
    pub fn add_block_time(&self, time: Span) {
        self.merge(&crate::Statistics { block_time: time, ..Default::default() });
    }
}

/// An event to poll for, but not to block for.
struct NonBlockingPhase<F> {
    poll: F,
    occurred: bool,
    /// Whether the rule has decided to block.
    would_block: bool,
}

impl<F: FnMut() -> bool> Awaited for NonBlockingPhase<F> {
    fn poll(&mut self) -> bool {
        self.occurred = self.occurred || (!self.would_block && (self.poll)());
        self.occurred || self.would_block
    }

    fn sleep(&mut self, _: Option<Instant>) {
        self.would_block = true;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use policy::waiting::WaitingRule;

    use super::*;
    use crate::Statistics;

    fn statistics(deadline: Option<Instant>, rule: WaitingRule, poll: impl FnMut() -> bool) -> (bool, Statistics) {
        let (state, counters, mut sum) = (AtomicU64::new(0), Counters::new(), Statistics::default());
        let object = ExternalObject { state: &state, counters: &counters, waiting: Waiting::by(rule), threads: 0 };
        let occurred = object.wait_without_blocking(deadline, poll);
        counters.add_block_time(Span::from_micros(3));
        counters.add_to(&mut sum);
        (occurred, sum)
    }

    #[test]
    fn the_first_phase_ends_when_the_event_has_occurred() {
        let mut polls = 0;
        let third = || {
            polls += 1;
            polls == 3
        };
        let (occurred, sum) = statistics(None, WaitingRule::AlwaysSpin, third);
        assert!(occurred);
        assert_eq!((sum.spins, sum.successful_spins, sum.blocks), (1, 1, 0));
    }

    #[test]
    fn the_first_phase_ends_at_its_deadline_if_the_rule_never_blocks() {
        for rule in [WaitingRule::AlwaysSpin, WaitingRule::AlwaysYield] {
            let (occurred, sum) = statistics(Some(Instant::ZERO), rule, || false);
            assert!(!occurred);
            assert_eq!((sum.successful_spins, sum.blocks), (0, 1), "{rule}");
        }
    }

    #[test]
    fn a_wait_ends_when_its_event_has_become_impossible() {
        struct Never;
        impl Awaited for Never {
            fn poll(&mut self) -> bool {
                false
            }

            fn sleep(&mut self, deadline: Option<Instant>) {
                crate::sync::script::sleep(|| true, deadline);
            }
        }
        let clock = crate::sync::script::ScriptedClock::start();
        for rule in [WaitingRule::AlwaysSpin, WaitingRule::AlwaysBlock] {
            let (state, counters, begun) = (AtomicU64::new(0), Counters::new(), clock.time());
            let object = ExternalObject { state: &state, counters: &counters, waiting: Waiting::by(rule), threads: 2 };
            let asked = std::cell::Cell::new(0);
            let is_possible = || asked.replace(asked.get() + 1) < 2;
            let mut waiter = ExternalObject::waiter(&object.waiting);
            assert!(!object.wait_while_possible(&is_possible, &mut waiter, &mut Never), "{rule}");
            let waited = clock.time().since(begun);
            assert!(waited >= Span::from_millis(300) && waited < Span::from_millis(301), "{rule}: {waited}");
        }
    }

    #[test]
    fn the_first_phase_ends_when_the_rule_would_block() {
        let (occurred, sum) = statistics(None, WaitingRule::AlwaysBlock, || panic!("this rule never polls"));
        assert!(!occurred);
        assert_eq!((sum.spins, sum.blocks), (0, 1));
        assert!(sum.block_time >= Span::from_micros(3));
        let (occurred, sum) = statistics(None, WaitingRule::Adaptive, || false);
        assert!(!occurred);
        assert_eq!((sum.spins, sum.successful_spins, sum.blocks), (1, 0, 1));
    }
}
