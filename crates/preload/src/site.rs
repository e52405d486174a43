//! State kept beside objects of the C library, which have no room for it: in one of a fixed number
//! of sites, chosen by the address of the object. Objects that share a site only share the
//! predictions made there.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use counters::{WaitCounts, WaitKind};
use policy::waiting::{SpinPredictor, WaitingRule};
use policy::{Instant, Span};
use sys::scheduling::{self, Thread};
use wait::external::ExternalObject;
use wait::spinning_waiters::{SpinningWaiter, SpinningWaiters};
use wait::{Statistics, Waiting};

use crate::sandbox;
use crate::settings::Settings;

const SITES: usize = 256;
static ALL: [Site; SITES] = [const { Site::new() }; SITES];

/// The longest spin under a rule that never blocks.
const LONGEST: Span = Span::from_millis(10);

#[repr(align(64))]
pub(crate) struct Site {
    /// The memory of the rule.
    state: AtomicU64,
    /// The predictor for spins here: the difference from [`SpinPredictor::CAUTIOUS`], so that all
    /// sites begin as zeros, which take no room in the library.
    predictor: AtomicU32,
    /// The spinning waiters for signals here.
    pub(crate) spinning_waiters: SpinningWaiters,
}

impl Site {
    const fn new() -> Site {
        Site { state: AtomicU64::new(0), predictor: AtomicU32::new(0), spinning_waiters: SpinningWaiters::new() }
    }

    /// The site of the object at this address.
    pub(crate) fn of<T>(object: *const T) -> &'static Site {
        // Objects are aligned, and often adjacent within larger ones: all bits of the address
        // should count.
        let mixed = (object.addr() as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &ALL[(mixed >> 56) as usize % SITES]
    }

    fn predictor(&self) -> SpinPredictor {
        SpinPredictor::from_word(self.predictor.load(Relaxed) ^ SpinPredictor::CAUTIOUS.word())
    }

    fn set_predictor(&self, predictor: SpinPredictor) {
        self.predictor.store(predictor.word() ^ SpinPredictor::CAUTIOUS.word(), Relaxed);
    }

    /// Decides whether to spin here before blocking. If not, counts the wait as blocked.
    pub(crate) fn decide_to_spin(&self, wait: &Wait) -> bool {
        // Concurrent updates may be lost, which only affects a few predictions.
        let mut predictor = self.predictor();
        let is_worthwhile = match wait.settings.waiting.rule() {
            rule if rule.is_adaptive() => predictor.decide_spin(),
            WaitingRule::AlwaysBlock => false,
            _ => true,
        } && !has_real_time_policy();
        self.set_predictor(predictor);
        if !is_worthwhile {
            wait.count_block();
        }
        is_worthwhile
    }

    /// Adds a spinning waiter for a signal, if there is a place. If not, counts the wait as
    /// blocked. The calling thread holds the mutex.
    pub(crate) fn enter(&'static self, wait: &Wait) -> Option<SpinningWaiter<'static>> {
        let waiter = self.spinning_waiters.enter();
        if waiter.is_none() {
            wait.count_block();
        } else if !HAVE_ENTERED.load(Relaxed) {
            HAVE_ENTERED.store(true, Relaxed);
        }
        waiter
    }

    /// Spins as long as the rule allows, and returns whether the event has come. If not, the caller
    /// blocks. Does not allocate.
    pub(crate) fn spin(&self, wait: &Wait, poll: impl FnMut() -> bool) -> bool {
        let object =
            ExternalObject { state: &self.state, counters: &wait.counts.counters, waiting: wait.waiting, threads: 0 };
        // A thread that never blocks could neither be cancelled nor interrupted by a signal
        // handler.
        let is_endless = matches!(wait.settings.waiting.rule(), WaitingRule::AlwaysSpin | WaitingRule::AlwaysYield);
        let came = object.wait_without_blocking(is_endless.then(|| now() + LONGEST), poll);
        let mut predictor = self.predictor();
        if came {
            predictor.record_success();
        } else {
            predictor.record_failure();
        }
        self.set_predictor(predictor);
        came
    }

    /// Spins if that is worthwhile.
    pub(crate) fn spin_if_worthwhile(&self, wait: &Wait, poll: impl FnMut() -> bool) -> bool {
        self.decide_to_spin(wait) && self.spin(wait, poll)
    }
}

/// Whether the calling thread has a real-time policy. Then POSIX promises that threads wait in the
/// order of their priorities and arrivals, but a thread that spins is not in the queue.
///
/// The policy is read at the first wait of a thread and from time to time, since that is a system
/// call. If that may be [forbidden](sandbox), the last one counts, or at first an ordinary one.
fn has_real_time_policy() -> bool {
    const VALID_FOR: u32 = 64;
    thread_local! {
        /// How many more waits the answer is for, and the answer.
        static KNOWN: Cell<(u32, bool)> = const { Cell::new((0, false)) };
    }
    let (left, is_real_time) = KNOWN.get();
    if let Some(left) = left.checked_sub(1) {
        KNOWN.set((left, is_real_time));
        return is_real_time;
    }
    if sandbox::is_possible() {
        return is_real_time;
    }
    let attributes = crate::preserve_errno(|| scheduling::attributes(Thread::current()));
    let is_real_time = attributes.is_ok_and(|attributes| attributes.policy.is_real_time());
    KNOWN.set((VALID_FOR, is_real_time));
    is_real_time
}

/// Whether there have been spinning waiters at any site, since a look at all sites takes a while.
static HAVE_ENTERED: AtomicBool = AtomicBool::new(false);

/// Removes the spinning waiters of all other threads, in the child of a fork.
pub(crate) extern "C" fn remove_waiters() {
    if HAVE_ENTERED.load(Relaxed) {
        ALL.iter().for_each(|site| site.spinning_waiters.clear());
    }
}

/// A wait of the calling thread.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    settings: &'static Settings,
    counts: &'static WaitCounts,
    waiting: Waiting,
}

impl Wait {
    /// Begins a wait.
    pub(crate) fn at(kind: WaitKind, settings: &'static Settings) -> Wait {
        let waiting = match kind {
            WaitKind::Condition | WaitKind::Semaphore => settings.signalled,
            _ => settings.waiting,
        };
        Wait { settings, counts: settings.count_wait(kind), waiting }
    }

    fn count_block(&self) {
        self.counts.counters.merge(&Statistics { blocks: 1, ..Statistics::default() });
    }

    /// Blocks in the real symbol, and counts the time.
    pub(crate) fn sleep<R>(&self, original: impl FnOnce() -> R) -> R {
        let before = now();
        let result = original();
        self.counts.counters.add_block_time(now().since(before));
        result
    }
}

/// A number of nanoseconds, as the C library takes it.
pub(crate) fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as libc::time_t, tv_nsec: (nanos % 1_000_000_000) as libc::c_long }
}

/// The time on `CLOCK_MONOTONIC`.
pub(crate) fn now() -> Instant {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    Instant::from_nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
