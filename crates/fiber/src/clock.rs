//! The clock of a runtime, as cheap as possible.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use policy::Span;
use sys::tick::ScriptedClock;

use crate::arch;

/// A clock's ticks become nanoseconds by a multiplication and a right shift by [`SHIFT`].
const SHIFT: u32 = 24;

pub(crate) enum Clock {
    /// The processor's clock.
    Real { multiplier: u64 },
    /// A clock that moves only when it is advanced: a nanosecond is a tick. Each reading advances
    /// it by a step, which is zero unless the runtime is deterministic.
    Scripted { clock: ScriptedClock, step: Span },
}

/// How long the processor's clock is observed to find its frequency.
const WATCHED: Duration = Duration::from_micros(10);

/// Both clocks at one moment. Takes the best of a few tries, because a thread that loses its CPU
/// between the two readings compares different moments.
fn both() -> (Instant, u64) {
    let read = || {
        let before = arch::ticks();
        let now = Instant::now();
        let apart = arch::ticks() - before;
        (apart, (now, before + apart / 2))
    };
    read().min(read()).min(read()).1
}

impl Clock {
    /// The processor's clock. Its multiplier is measured once.
    pub(crate) fn real() -> Clock {
        static MULTIPLIER: OnceLock<u64> = OnceLock::new();
        let multiplier = *MULTIPLIER.get_or_init(|| {
            let (began, first) = both();
            while began.elapsed() < WATCHED {
                std::hint::spin_loop();
            }
            let (ended, last) = both();
            (((ended - began).as_nanos() as u64) << SHIFT) / (last - first).max(1)
        });
        Clock::Real { multiplier }
    }

    pub(crate) fn scripted(&self) -> Option<&ScriptedClock> {
        match self {
            Clock::Real { .. } => None,
            Clock::Scripted { clock, .. } => Some(clock),
        }
    }

    #[inline(always)]
    pub(crate) fn ticks(&self) -> u64 {
        match self {
            Clock::Real { .. } => arch::ticks(),
            Clock::Scripted { clock, .. } => clock.elapsed().as_nanos() as u64,
        }
    }

    /// The time at a safepoint or the end of a turn, in ticks.
    #[inline(always)]
    pub(crate) fn read(&self) -> u64 {
        if let Clock::Scripted { clock, step } = self
            && *step > Span::ZERO
        {
            clock.advance(Duration::from_nanos(step.as_nanos()));
        }
        self.ticks()
    }

    /// The nanoseconds in a tick, shifted left by [`SHIFT`].
    pub(crate) fn multiplier(&self) -> u64 {
        if let Clock::Real { multiplier } = self { *multiplier } else { 1 << SHIFT }
    }

    pub(crate) fn span(&self, ticks: u64) -> Span {
        Span::from_nanos(((u128::from(ticks) * u128::from(self.multiplier())) >> SHIFT) as u64)
    }

    pub(crate) fn in_ticks(&self, span: Span) -> u64 {
        ((u128::from(span.as_nanos()) << SHIFT) / u128::from(self.multiplier().max(1))) as u64
    }

    /// The time as an `Instant`.
    pub(crate) fn now(&self) -> Instant {
        self.scripted().map_or_else(Instant::now, ScriptedClock::now)
    }
}
