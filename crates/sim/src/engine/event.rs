//! Events: what can happen at a CPU, and what comes first within one moment. What is due elsewhere, at the device, counts as the end of
//! a computation on a CPU beyond all others.

use policy::Instant;
use scenario::Tie;

use super::winner::Key;

/// The kinds of event, in the order in which they are taken within one moment where an arrival beats the end of a spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    SwitchEnds = 0,
    ComputationEnds = 1,
    Alarm = 2,
    SpinEnds = 3,
}

/// The place of each kind of event within one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order([u64; 4]);

impl Order {
    pub(crate) fn new(tie: Tie) -> Order {
        Order(match tie {
            Tie::Arrive => [0, 1, 2, 3],
            Tie::Timeout => [0, 2, 3, 1],
        })
    }

    /// A time and an event as one key of the winner tree: the time in the upper 62 bits.
    #[inline]
    pub(crate) fn key(self, at: Instant, event: Event) -> u64 {
        let nanos = at.as_nanos();
        if nanos >= u64::NEVER >> 2 { u64::NEVER } else { nanos << 2 | self.0[event as usize] }
    }

    /// Whether a key is that of an event of this kind.
    #[inline]
    pub(crate) fn is_event(self, key: u64, event: Event) -> bool {
        key & 3 == self.0[event as usize]
    }
}
