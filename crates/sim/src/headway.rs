//! Whether a simulation gets anywhere. A scheduler with unlucky options can switch for ever without letting anybody run, and
//! rules that yield can hand a CPU to each other for ever; then an error is better than a run without end.

use policy::{Instant, Span};

use crate::account::Use;

/// How long the jobs that a run waits for have got nowhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headway {
    /// When one of their threads last ran.
    since: Instant,
    /// Switches since one of them last ran.
    without_running: u64,
    /// Switches since one of them last computed.
    without_work: u64,
    threads: u64,
}

impl Headway {
    pub(crate) fn new(threads: usize) -> Headway {
        Headway { since: Instant::ZERO, without_running: 0, without_work: 0, threads: threads as u64 }
    }

    /// A switch; returns the moment of the last headway if there have been too many without any.
    ///
    /// The limits are far beyond what any scheduler needs to serve every thread once. Waiting threads may spin and yield for
    /// long until the one that they wait for has its turn, so work is waited for a hundred times longer.
    #[inline]
    pub(crate) fn switch(&mut self) -> Option<Instant> {
        self.without_running += 1;
        self.without_work += 1;
        let limit = 1_000_000 + 1_000 * self.threads;
        (self.without_running > limit || self.without_work > 100 * limit).then_some(self.since)
    }

    /// A thread of a job that the run waits for used a CPU.
    #[inline]
    pub(crate) fn ran(&mut self, now: Instant, used: Use, span: Span) {
        if span.is_zero() {
            return;
        }
        self.since = now;
        self.without_running = 0;
        if used == Use::Work {
            self.without_work = 0;
        }
    }

    /// A job has ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        *self = Headway { since: now, without_running: 0, without_work: 0, ..*self };
    }
}
