//! `sched_yield` in polling loops that yield between polls: Open MPI.
//!
//! All waits of Open MPI are a loop around `opal_progress`, which polls for events, and yields if
//! there are none and it is configured to. Here it is always configured to yield, and the rule
//! decides whether the thread polls again at once, yields, or sleeps for a while (the module
//! `steps`).
//!
//! * An unsuccessful poll is an `opal_progress` that yields. One that does not yield has found an
//!   event, so the wait is over at the latest when the next one begins.
//! * A program may also poll by itself with `MPI_Test` and do other work between two polls. Such a
//!   thread must not sleep. It is recognized by the time between two polls, which is tiny in a loop
//!   of the library.
//! * If no rank needs the CPU of another, a wait begins with a few polls that cost no more than
//!   without this library.
//!
//! All other callers of `sched_yield` yield as usual, since their purpose is unknown.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use counters::WaitKind;
use policy::{CpuId, Instant, Span};
use wait::external::ExternalObject;
use wait::turn::{self, Turn};

use crate::backoff::Backoff;
use crate::ranks::Ranks;
use crate::real_symbols::real_symbols;
use crate::settings::Settings;
use crate::site;
use crate::steps::{Platform, Steps};

real_symbols! {
    fn opal_progress() -> c_int;
    fn opal_progress_set_yield_when_idle(yields: bool) -> bool;
}

/// Unsuccessful polls before the rule is consulted, if each rank has a CPU.
const FREE_POLLS: u32 = 16;
/// A longer time between polls means that the thread does other work in between.
const TIGHT: Span = Span::from_nanos(300);

/// The ranks, known once Open MPI is initialized.
static RANKS: OnceLock<Ranks> = OnceLock::new();
/// The memory of the rule.
static STATE: AtomicU64 = AtomicU64::new(0);

/// The polls of one thread.
struct Polls {
    /// Whether it is inside `opal_progress`.
    is_polling: Cell<bool>,
    /// Whether the current `opal_progress` has yielded.
    has_yielded: Cell<bool>,
    /// The number of successive unsuccessful polls.
    unsuccessful: Cell<u32>,
    /// Whether a wait is in progress.
    is_waiting: Cell<bool>,
    steps: RefCell<Option<Steps>>,
}

thread_local! {
    static POLLS: Polls = const {
        Polls {
            is_polling: Cell::new(false),
            has_yielded: Cell::new(false),
            unsuccessful: Cell::new(0),
            is_waiting: Cell::new(false),
            steps: RefCell::new(None),
        }
    };
}

/// The machine that this thread runs on.
struct Machine;

impl Platform for Machine {
    fn now(&self) -> Instant {
        site::now()
    }

    fn cpu(&self) -> CpuId {
        CpuId(sys::cpus::current())
    }

    fn yield_now(&self) {
        // SAFETY: no preconditions.
        unsafe { libc::syscall(libc::SYS_sched_yield) };
    }

    fn sleep(&self, backoff: &mut Backoff) {
        crate::preserve_errno(|| {
            if !turn::park(site::now()) {
                backoff.sleep();
            }
        });
    }

    fn turn(&self, now: Instant) -> Turn {
        turn::turn(now)
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn sched_yield() -> c_int {
    let is_poll = POLLS.try_with(|polls| polls.is_polling.get() && !polls.has_yielded.replace(true));
    if is_poll == Ok(true) {
        return 0;
    }
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_sched_yield) as c_int }
}

/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn opal_progress_set_yield_when_idle(yields: bool) -> bool {
    let by_rule = Settings::get().and_then(|_| Ranks::find()).map(|ranks| RANKS.get_or_init(|| ranks)).is_some();
    // SAFETY: the caller's own call.
    unsafe { real::opal_progress_set_yield_when_idle(yields || by_rule) }
}

/// It returns a value in later versions. In earlier ones no caller reads it.
///
/// # Safety
/// As for the real symbol.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn opal_progress() -> c_int {
    let Some(&ranks) = RANKS.get() else {
        // SAFETY: the caller's own call.
        return unsafe { real::opal_progress() };
    };
    let result = POLLS.try_with(|polls| {
        let within = polls.is_polling.replace(true);
        let began = if polls.is_waiting.get() && !within { Some(polls.begin_poll()) } else { None };
        polls.has_yielded.set(false);
        // SAFETY: the caller's own call.
        let result = unsafe { real::opal_progress() };
        // An enclosing poll, if there is one, has not yielded yet.
        let has_yielded = polls.has_yielded.replace(false);
        polls.is_polling.set(within);
        if has_yielded && !within {
            polls.unsuccessful.set(polls.unsuccessful.get().saturating_add(1));
            if polls.unsuccessful.get() > FREE_POLLS || ranks.are_oversubscribed() {
                polls.wait(began.unwrap_or_else(|| Machine.now()), ranks);
            }
        } else if !within {
            polls.unsuccessful.set(0);
            if polls.is_waiting.get() {
                polls.end(Machine.now());
            }
        }
        result
    });
    // SAFETY: the caller's own call.
    result.unwrap_or_else(|_| unsafe { real::opal_progress() })
}

impl Polls {
    /// Begins the next poll of a wait, and returns the time. If the thread comes from other work,
    /// its wait had ended.
    fn begin_poll(&self) -> Instant {
        let now = Machine.now();
        let left = self.steps.try_borrow().ok().and_then(|steps| Some(steps.as_ref()?.left()));
        if left.is_some_and(|left| now.since(left) > TIGHT) {
            self.unsuccessful.set(0);
            self.end(now);
        }
        now
    }

    /// Handles an unsuccessful poll.
    fn wait(&self, began: Instant, ranks: Ranks) {
        let (Some(settings), Ok(mut steps)) = (Settings::get(), self.steps.try_borrow_mut()) else { return };
        let steps = steps.get_or_insert_with(|| Steps::new(ExternalObject::waiter(&settings.waiting)));
        steps.step(began, &Machine, ranks, &STATE);
        self.is_waiting.set(true);
    }

    /// Ends the wait.
    fn end(&self, now: Instant) {
        self.is_waiting.set(false);
        let (Some(settings), Ok(mut steps)) = (Settings::get(), self.steps.try_borrow_mut()) else { return };
        if let Some(steps) = steps.as_mut() {
            steps.finish(now, &STATE, settings.counts(WaitKind::Yield));
        }
    }
}
