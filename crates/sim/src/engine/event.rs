//! Events of CPUs, and their order within one moment.
//!
//! A timed event, such as one of the device, counts as the end of a computation on a CPU after all
//! others.

use policy::Instant;
use scenario::Tie;

use super::winner::Key;

/// The kinds of event, in their order within one moment if an arrival beats the end of a spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    SwitchEnds = 0,
    ComputationEnds = 1,
    Alarm = 2,
    SpinEnds = 3,
}

/// The rank of each kind of event within one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order([u64; 4]);

impl Order {
    pub(crate) fn new(tie: Tie) -> Order {
        Order(match tie {
            Tie::Arrive => [0, 1, 2, 3],
            Tie::Timeout => [0, 2, 3, 1],
        })
    }

    /// Packs a time and an event into one key of the winner tree. The upper 62 bits are the time.
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
