//! Whether a simulation gets anywhere. A scheduler with unlucky options can switch for ever without letting anybody run, and
//! rules that yield can hand a CPU to each other for ever; then an error is better than a run without end.

use policy::{Instant, Span};
use scenario::Machine;

use crate::account::Use;

/// What the jobs that a run waits for were last seen to do.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Instant,
    /// Switches since then.
    switches: u64,
}

/// How long the jobs that a run waits for have got nowhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headway {
    /// When one of their threads last ran.
    ran: Mark,
    /// When one of them last computed.
    worked: Mark,
    /// So many switches are too many, if they have taken so long: far more than any scheduler needs to serve every thread once.
    switches: u64,
    span: Span,
}

impl Headway {
    pub(crate) fn new(machine: &Machine, threads: usize) -> Headway {
        let threads = threads as u64;
        let ticks = u64::from(machine.linux_2_4.allocation) + 1;
        let turn = machine.quantum.max(machine.slice).max(machine.tick.scaled(1_000 * ticks));
        Headway {
            ran: Mark::default(),
            worked: Mark::default(),
            switches: 1_000_000 + 1_000 * threads,
            span: turn.scaled(10_000 * (threads + 1)),
        }
    }

    /// A switch; returns the moment of the last headway if there have been too many without any.
    ///
    /// Waiting threads may spin and yield for long until the one that they wait for has its turn, so work is waited for a
    /// hundred times longer.
    #[inline]
    pub(crate) fn switch(&mut self, now: Instant) -> Option<Instant> {
        self.ran.switches += 1;
        self.worked.switches += 1;
        let is_over = |since: Mark, patience: u64| since.switches > patience && now.since(since.at) > self.span;
        (is_over(self.ran, self.switches) || is_over(self.worked, 100 * self.switches)).then_some(self.ran.at)
    }

    /// A thread of a job that the run waits for used a CPU.
    #[inline]
    pub(crate) fn ran(&mut self, now: Instant, used: Use, span: Span) {
        if span.is_zero() {
            return;
        }
        self.ran = Mark { at: now, switches: 0 };
        if used == Use::Work {
            self.worked = self.ran;
        }
    }

    /// A job has ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.ran = Mark { at: now, switches: 0 };
        self.worked = self.ran;
    }
}
