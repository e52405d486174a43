//! The time, as cheap as can be had.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use policy::Span;
use sys::tick::ScriptedClock;

use crate::arch;
use crate::debugger::PACE;
use crate::runtime::Config;
use crate::schedule_fuzzer::STEP;

/// How a clock's ticks become nanoseconds: times this, shifted right by [`SHIFT`].
const SHIFT: u32 = 24;

/// What a runtime tells the time by.
pub(crate) enum Clock {
    /// The processor's.
    Real { multiplier: u64 },
    /// One that goes on only when it is advanced: a nanosecond is a tick. Each reading advances it by a step, which is zero unless the runtime is deterministic.
    Scripted { clock: ScriptedClock, step: Span },
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

    /// The clock of a runtime of this kind.
    pub(crate) fn of(config: &Config) -> Clock {
        match (&config.clock, config.deterministic) {
            (None, None) => Clock::real(),
            (clock, None) => Clock::Scripted { clock: clock.clone().unwrap_or_default(), step: Span::ZERO },
            (clock, Some(_)) => Clock::Scripted { clock: clock.clone().unwrap_or_default(), step: STEP },
        }
    }

    /// The clock, if it is a scripted one.
    pub(crate) fn scripted(&self) -> Option<&ScriptedClock> {
        match self {
            Clock::Real { .. } => None,
            Clock::Scripted { clock, .. } => Some(clock),
        }
    }

    /// The time, in ticks.
    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        match self {
            Clock::Real { .. } => arch::ticks(),
            Clock::Scripted { clock, .. } => clock.elapsed().as_nanos() as u64,
        }
    }

    /// The time at a point or the end of a turn, in ticks.
    #[inline(always)]
    pub(crate) fn read(&self) -> u64 {
        if let Clock::Scripted { clock, step } = self
            && *step > Span::ZERO
        {
            clock.advance(Duration::from_nanos(step.as_nanos()));
        }
        self.ticks()
    }

    /// How long so many ticks are.
    pub(crate) fn span(&self, ticks: u64) -> Span {
        match self {
            Clock::Real { multiplier } => {
                Span::from_nanos(((u128::from(ticks) * u128::from(*multiplier)) >> SHIFT) as u64)
            }
            Clock::Scripted { .. } => Span::from_nanos(ticks),
        }
    }

    /// How many ticks a time takes.
    pub(crate) fn in_ticks(&self, span: Span) -> u64 {
        match self {
            Clock::Real { multiplier } => {
                ((u128::from(span.as_nanos()) << SHIFT) / u128::from((*multiplier).max(1))) as u64
            }
            Clock::Scripted { .. } => span.as_nanos(),
        }
    }

    /// The time, for people.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Clock::Real { .. } => Instant::now(),
            Clock::Scripted { clock, .. } => clock.now(),
        }
    }

    /// Nothing is to be done before then. Real time passes by `sleep`; a scripted time comes at once, unless there is none.
    pub(crate) fn sleep(&self, until: Option<Instant>, sleep: impl FnOnce(Option<Instant>)) {
        match (self.scripted(), until) {
            (Some(clock), Some(until)) => clock.advance_to(until),
            _ => sleep(until),
        }
    }
}
