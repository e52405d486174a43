//! Whether a thread that has no buffer looks for one a little longer before it sleeps.
//!
//! Source: our own, in the manner of the adaptive rule of `policy::waiting`, by which it sleeps after this. That rule yields only where a whole team
//! waits for each other. At a queue it is known as much: the one who will bring a buffer is a thread of the same run, and where there are more threads than
//! CPUs it may well wait for this very CPU. To give it the CPU costs a switch; to sleep and be woken costs several times as much, on virtual
//! machines tens of times.
//!
//! * **Only where waits have been short**: a thread goes by what its last waits took. Where a stage before it takes a millisecond for a buffer, looking for
//!   longer would only take CPU time from it.
//! * **Only as long as nobody else takes the CPU**: a yield from which it comes back after a millisecond has fed another program. When that happens twice
//!   within few yields the thread sleeps at once for a while, and for longer each time that happens again. Once alone may be the machine's own business.
//!
//! Who has looked on in vain sleeps without spinning before it: it has done its waiting awake.

use policy::{Instant, Span};

/// Waits that take no longer than this are worth looking on for: about what waking a thread that sleeps on another CPU takes where it is dear.
const SHORT: Span = Span::from_micros(100);

/// It looks on for so long.
const LOOK_ON: Span = Span::from_micros(400);

/// A yield that takes so long was another program's gain.
const FOREIGN: Span = Span::from_millis(1);

/// For how long a thread sleeps at once after that, at first, and at the most.
const GUARD: (Span, Span) = (Span::from_millis(50), Span::from_millis(1600));

/// What a thread remembers of its waits.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// What its waits took as of late.
    expected: Span,
    /// Until when it sleeps at once.
    guarded_until: Instant,
    guard: Span,
    /// How many yields ago the last one was another program's gain.
    yields_since: u32,
}

/// Two such yields within so many are no accident.
const FEW: u32 = 64;

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience { expected: Span::ZERO, guarded_until: Instant::from_nanos(0), guard: GUARD.0, yields_since: FEW }
    }

    /// For how long a wait that begins now should yield before it sleeps.
    pub(crate) fn yields_for(&self, now: Instant) -> Span {
        if self.expected > SHORT || now < self.guarded_until { Span::ZERO } else { LOOK_ON }
    }

    /// A yield has taken so long. Returns whether there should be no more of them.
    pub(crate) fn yielded(&mut self, now: Instant, time: Span) -> bool {
        if time < FOREIGN {
            self.yields_since = self.yields_since.saturating_add(1);
            return false;
        }
        if std::mem::take(&mut self.yields_since) >= FEW {
            return false;
        }
        let long_ago = now > self.guarded_until + GUARD.1;
        self.guard = if long_ago { GUARD.0 } else { (self.guard + self.guard).min(GUARD.1) };
        self.guarded_until = now + self.guard;
        true
    }

    /// A wait has taken so long in all.
    pub(crate) fn waited(&mut self, time: Span) {
        // Each counts for an eighth, and none for more than can be forgotten within a few.
        let time = time.min(Span::from_nanos(SHORT.as_nanos() * 8));
        self.expected = Span::from_nanos((self.expected.as_nanos() * 7 + time.as_nanos()) / 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(10_000_000_000);

    #[test]
    fn who_waits_for_short_yields_and_who_waits_for_long_sleeps_until_waits_are_short_again() {
        let mut patience = Patience::new();
        assert_eq!(patience.yields_for(START), LOOK_ON);
        for _ in 0..3 {
            patience.waited(Span::from_millis(1));
        }
        assert_eq!(patience.yields_for(START), Span::ZERO);
        for _ in 0..20 {
            patience.waited(Span::from_micros(40));
        }
        assert_eq!(patience.yields_for(START), LOOK_ON);
    }

    #[test]
    fn whose_cpu_others_take_sleeps_at_once_for_longer_and_longer() {
        let tick = Span::from_millis(4);
        let mut patience = Patience::new();
        assert!(!patience.yielded(START, Span::from_micros(30)));
        assert!(!patience.yielded(START, tick), "once may be an accident");
        assert!(!patience.yielded(START, Span::from_micros(30)));
        assert!(patience.yielded(START, tick));
        assert_eq!(patience.yields_for(START + Span::from_millis(49)), Span::ZERO);
        let again = START + Span::from_millis(51);
        assert_eq!(patience.yields_for(again), LOOK_ON);
        assert!(patience.yielded(again, tick));
        assert_eq!(patience.yields_for(again + Span::from_millis(99)), Span::ZERO);
        let mut now = again;
        for _ in 0..20 {
            now = now + Span::from_millis(1601);
            patience.yielded(now, tick);
        }
        assert_eq!(patience.yields_for(now + Span::from_millis(1599)), Span::ZERO);
        // After a long peace it begins anew.
        now = now + Span::from_millis(10_000);
        patience.yielded(now, tick);
        assert_eq!(patience.yields_for(now + Span::from_millis(101)), LOOK_ON);
    }

    #[test]
    fn a_yield_that_takes_long_now_and_then_changes_nothing() {
        let mut patience = Patience::new();
        for _ in 0..20 {
            assert!(!patience.yielded(START, Span::from_millis(4)));
            for _ in 0..FEW {
                assert!(!patience.yielded(START, Span::from_micros(3)));
            }
        }
    }
}
