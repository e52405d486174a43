//! The time, as cheap as can be had.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use policy::Span;

use crate::arch;
use crate::chance::STEP;
use crate::debugger::PACE;

/// How a clock's ticks become nanoseconds: times this, shifted right by [`SHIFT`].
const SHIFT: u32 = 24;

/// What a runtime tells the time by.
pub(crate) enum Clock {
    /// The processor's.
    Real { multiplier: u64 },
    /// One that goes on only by what is done: a nanosecond is a tick.
    Virtual { now: Cell<u64>, began: Instant },
}

/// How long the processor's clock is watched to know its pace.
const WATCHED: Duration = Duration::from_micros(10);

/// Of the processor's clock, measured once.
fn multiplier() -> u64 {
    static MULTIPLIER: OnceLock<u64> = OnceLock::new();
    *MULTIPLIER.get_or_init(|| {
        let (began, first) = both();
        while began.elapsed() < WATCHED {
            std::hint::spin_loop();
        }
        let (ended, last) = both();
        let multiplier = (((ended - began).as_nanos() as u64) << SHIFT) / (last - first).max(1);
        PACE.store(multiplier, Relaxed);
        multiplier
    })
}

/// What both clocks say at one moment: in the best of a few tries, since who loses the CPU between them compares two moments.
fn both() -> (Instant, u64) {
    let mut best = (u64::MAX, Instant::now(), 0);
    for _ in 0..3 {
        let before = arch::ticks();
        let now = Instant::now();
        let apart = arch::ticks() - before;
        if apart < best.0 {
            best = (apart, now, before + apart / 2);
        }
    }
    (best.1, best.2)
}

impl Clock {
    pub(crate) fn real() -> Clock {
        Clock::Real { multiplier: multiplier() }
    }

    pub(crate) fn drawn() -> Clock {
        Clock::Virtual { now: Cell::new(0), began: Instant::now() }
    }

    /// The time, in ticks.
    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        match self {
            Clock::Real { .. } => arch::ticks(),
            Clock::Virtual { now, .. } => now.get(),
        }
    }

    /// The time at a point or the end of a turn, in ticks.
    #[inline(always)]
    pub(crate) fn read(&self) -> u64 {
        if let Clock::Virtual { now, .. } = self {
            now.set(now.get() + STEP.as_nanos());
        }
        self.ticks()
    }

    /// How long so many ticks are.
    pub(crate) fn span(&self, ticks: u64) -> Span {
        match self {
            Clock::Real { multiplier } => {
                Span::from_nanos(((u128::from(ticks) * u128::from(*multiplier)) >> SHIFT) as u64)
            }
            Clock::Virtual { .. } => Span::from_nanos(ticks),
        }
    }

    /// How many ticks a time takes.
    pub(crate) fn in_ticks(&self, span: Span) -> u64 {
        match self {
            Clock::Real { multiplier } => {
                ((u128::from(span.as_nanos()) << SHIFT) / u128::from((*multiplier).max(1))) as u64
            }
            Clock::Virtual { .. } => span.as_nanos(),
        }
    }

    /// The time, for people.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Clock::Real { .. } => Instant::now(),
            Clock::Virtual { now, began } => *began + Duration::from_nanos(now.get()),
        }
    }

    /// Nothing is to be done before then. Real time passes by `sleep`; a virtual time comes at once, unless there is none.
    pub(crate) fn sleep(&self, until: Option<Instant>, sleep: impl FnOnce(Option<Instant>)) {
        match (self, until) {
            (Clock::Virtual { now, began }, Some(until)) => {
                let then = u64::try_from(until.saturating_duration_since(*began).as_nanos()).unwrap_or(u64::MAX);
                now.set(now.get().max(then));
            }
            _ => sleep(until),
        }
    }
}
