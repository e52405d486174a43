//! Time accounting of CPUs and jobs.

use policy::{Instant, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuUse {
    /// The computation that the scenario asks for.
    Work,
    Spin,
    /// Switching between threads, to and from idleness, yielding without a successor, and
    /// waiting for cache lines.
    Switch,
    Idle,
}

/// The time of all CPUs together, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineTime {
    spans: [Span; 4],
}

impl MachineTime {
    pub(crate) fn charge(&mut self, to: CpuUse, span: Span) {
        self.spans[to as usize] += span;
    }

    pub(crate) fn total(&self) -> Span {
        self.spans.into_iter().sum()
    }

    /// The share of one use in percent. `None` before any time has passed.
    pub(crate) fn percent(&self, of: CpuUse) -> Option<f64> {
        let total = self.total().as_secs_f64();
        (total > 0.0).then(|| 100.0 * self.spans[of as usize].as_secs_f64() / total)
    }
}

/// How long the threads of a job have wanted CPUs, all together: they had one, or waited for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// How many threads want one since the last change.
    wanting: u32,
    changed: Instant,
    until_then: Span,
}

impl Demand {
    /// So many threads want a CPU from the beginning of the run on.
    pub(crate) fn of(wanting: u32) -> Demand {
        Demand { wanting, ..Demand::default() }
    }

    /// Whether no thread wants one.
    pub(super) fn is_over(&self) -> bool {
        self.wanting == 0
    }

    /// The time until `now`.
    pub(crate) fn until(&self, now: Instant) -> Span {
        self.until_then + now.since(self.changed).scaled(1_000 * u64::from(self.wanting))
    }

    /// A thread wants a CPU that wanted none, or the reverse.
    pub(crate) fn change(&mut self, wants: bool, now: Instant) {
        let wanting = if wants { self.wanting + 1 } else { self.wanting - 1 };
        *self = Demand { wanting, changed: now, until_then: self.until(now) };
    }
}

/// Totals over the threads of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Time on a CPU, with the switches to it.
    pub(crate) cpu: Span,
    /// The part of it that was computation.
    pub(crate) work: Span,
    /// The part of it that was spinning.
    pub(crate) spin: Span,
    /// Waits that began with a spin.
    pub(crate) spins: u64,
    /// Those of them that ended while the thread spun.
    pub(crate) successful_spins: u64,
    /// How often a thread blocked or, as Linux counts, left its CPU because it was stopped.
    pub(crate) voluntary: u64,
    /// The part of it that was stops.
    pub(crate) stops: u64,
    /// How often a thread was preempted, or yielded to another.
    pub(crate) involuntary: u64,
}

impl Account {
    pub(crate) fn charge(&mut self, to: CpuUse, span: Span) {
        self.cpu += span;
        match to {
            CpuUse::Work => self.work += span,
            CpuUse::Spin if cfg!(rowlock_canary = "a-spin-counts-twice") => self.spin += span + span,
            CpuUse::Spin => self.spin += span,
            CpuUse::Switch | CpuUse::Idle => {}
        }
    }

    /// Successful spins over all spins in percent. `None` without a spin.
    pub(crate) fn ssr_percent(&self) -> Option<f64> {
        let all_succeed = cfg!(rowlock_canary = "a-failed-spin-succeeds");
        let successful = if all_succeed { self.spins } else { self.successful_spins };
        (self.spins > 0).then(|| 100.0 * successful as f64 / self.spins as f64)
    }
}
