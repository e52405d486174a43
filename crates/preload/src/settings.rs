//! The waiting rules of this program, as configured by the process that started it.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use counters::{Environment, ProcessStatistics, Reason, Region, WaitCounts, WaitKind};
use policy::Span;
use policy::waiting::{Bound, WaitingRule};
use sys::shared_memory::View;
use wait::{Costs, Waiting};

use crate::sandbox;

/// The settings of this process, which never change.
pub(crate) struct Settings {
    /// The rule for waits for an event from another thread: see [`signalled`].
    pub(crate) signalled: Waiting,
    /// The general rule, without counting or measuring. Teams use [`Settings::team_waiting`].
    pub(crate) waiting: Waiting,
    /// The number of CPUs for a team; zero if not determined yet.
    cpus: AtomicU32,
    /// The statistics of this process.
    pub(crate) statistics: &'static ProcessStatistics,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The spin budget of the adaptive rule at barriers, relative to CS.
const BOUND: Bound = Bound::OfCs { thousandths: 2_400, plus: false };

/// Default costs: those of a current virtual machine.
const USUAL: Costs = Costs {
    cs: Span::from_micros(15),
    margin: Span::from_nanos(7_500),
    lone_yield: Span::from_nanos(500),
    tick: Span::from_millis(4),
};

impl Settings {
    /// The settings. The first call reads them, and allocates.
    pub(crate) fn get_or_init() -> &'static Settings {
        SETTINGS.get_or_init(|| {
            // Later, it may be forbidden to read files or to allocate.
            wait::turn::page();
            let environment = Environment::read(|name| std::env::var_os(name));
            let costs = environment.costs.unwrap_or(USUAL);
            let statistics = claim_slot(&environment, costs.cs);
            // Approximate: the search for quotas takes as long as the rest of the initialization,
            // and most programs have no teams.
            let cpus = sys::cpus::allowed().map_or(1, |cpus| cpus.len() as u32);
            let by = |rule| Waiting::by(rule).with_costs(costs).with_cpus(cpus).without_moves();
            let (waiting, signalled) = (by(environment.rule), by(signalled(environment.rule)));
            Settings { waiting, signalled, cpus: AtomicU32::new(0), statistics }
        })
    }

    /// The settings. `None` before the program begins. Never blocks.
    #[inline]
    pub(crate) fn get() -> Option<&'static Settings> {
        SETTINGS.get()
    }

    /// The rule for the threads of a team. The first call reads files and allocates, unless the
    /// program may have [forbidden](sandbox) itself that: then quotas of CPUs are unknown.
    pub(crate) fn team_waiting(&self) -> Waiting {
        let known = self.cpus.load(Relaxed);
        if known == 0 && sandbox::is_requested() {
            return self.waiting;
        }
        let cpus = if known > 0 { known } else { sys::cpus::usable() };
        self.cpus.store(cpus, Relaxed);
        self.waiting.with_cpus(cpus)
    }

    /// The counts of the calling thread for a kind of waits.
    pub(crate) fn counts(&self, kind: WaitKind) -> &'static WaitCounts {
        // Shards are chosen by CPU rather than by thread: few CPUs share a cache line then, however
        // many threads there are.
        self.statistics.counts(kind, sys::cpus::current() as usize)
    }

    /// Counts a wait of the calling thread, and returns its counts for this kind of waits.
    pub(crate) fn count_wait(&self, kind: WaitKind) -> &'static WaitCounts {
        let counts = self.counts(kind);
        counts.count_wait();
        counts
    }

    /// Counts a wait, or an object to wait at, that is passed through.
    pub(crate) fn pass_through(&self, kind: WaitKind, reason: Reason) {
        self.statistics.count_pass_through(kind, reason);
    }
}

/// The rule for semaphores and condition variables, given the rule for barriers.
///
/// As with a lock, the next thread is unknown, so an adaptive rule would treat them as locks,
/// whose owners release them soon. But these waits mostly last until another thread has done some
/// work. If that thread is blocked, this takes at least as long as a wake; a shorter spin only
/// succeeds if it never blocks. So the spin budget is that of barriers, and the spin-success
/// predictor skips spins that would fail.
fn signalled(rule: WaitingRule) -> WaitingRule {
    if rule.is_adaptive() { WaitingRule::TwoPhase(BOUND) } else { rule }
}

/// Claims a slot of the statistics region, or uses private statistics that are never read.
fn claim_slot(environment: &Environment, cs: Span) -> &'static ProcessStatistics {
    static UNREAD: ProcessStatistics = ProcessStatistics::new();
    /// Keeps the mapping alive.
    static CLAIMED: OnceLock<View<ProcessStatistics>> = OnceLock::new();
    let claim = || Region::open(environment.region.as_ref()?).ok()?.claim();
    let statistics = claim().map_or(&UNREAD, |slot| CLAIMED.get_or_init(|| slot));
    statistics.begin(std::process::id(), &name(), cs);
    statistics
}

/// The name of the program, as the kernel knows it.
fn name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: there is room for the answer.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}
