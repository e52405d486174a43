//! The last arrival of a party: written by the party, read by threads that wait for it.

use std::sync::atomic::Ordering::Relaxed;

use policy::CpuId;

use crate::protocol::generation::Round;
use crate::sync::AtomicU64;

/// The last arrival of one party, in one word. The upper half is its round modulo 2^32. The lower
/// half tells whether it was the last of that round, and its CPU plus one. Zero at first.
#[derive(Debug)]
pub(crate) struct LastArrival(AtomicU64);

/// No CPU has this number.
const GONE: u64 = u64::MAX;
/// The party was the last to arrive in the round, and releases the others.
const LEADER: u64 = 1 << 31;

impl LastArrival {
    pub(crate) fn none() -> LastArrival {
        LastArrival(AtomicU64::new(0))
    }

    /// Publishes that the party has arrived in `round` on `cpu`.
    pub(crate) fn publish(&self, round: Round, is_leader: bool, cpu: CpuId) {
        let lead = if is_leader { LEADER } else { 0 };
        self.0.store(round.0 << 32 | lead | u64::from(cpu.0.wrapping_add(1)) & (LEADER - 1), Relaxed);
    }

    /// Publishes that the party will not arrive any more, and is not awaited.
    pub(crate) fn leave(&self) {
        self.0.store(GONE, Relaxed);
    }

    /// Whether the party has begun to leave.
    pub(crate) fn is_leaving(&self) -> bool {
        self.0.load(Relaxed) == GONE
    }

    /// Whether the party has published that it was the last to arrive in `round`.
    pub(crate) fn is_leader_of(&self, round: Round) -> bool {
        let word = self.0.load(Relaxed);
        word != GONE && word & LEADER != 0 && (word >> 32) as u32 == round.0 as u32
    }

    /// `None` if the party has arrived in `round` or left, else the CPU of its last arrival, if
    /// any.
    ///
    /// The word orders no other memory accesses, and may be out of date. It only advises.
    pub(crate) fn missing_from(&self, round: Round) -> Option<Option<CpuId>> {
        let word = self.0.load(Relaxed);
        if word == GONE {
            return None;
        }
        let Some(cpu) = ((word & (LEADER - 1)) as u32).checked_sub(1) else { return Some(None) };
        let behind = (round.0 as u32).wrapping_sub((word >> 32) as u32);
        (behind as i32 > 0).then_some(Some(CpuId(cpu)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_party_is_missing_until_it_has_arrived_in_the_round() {
        let last_arrival = LastArrival::none();
        assert_eq!(last_arrival.missing_from(Round(0)), Some(None));
        for round in [0, 7, u64::from(u32::MAX), u64::from(u32::MAX) + 1] {
            last_arrival.publish(Round(round), round == 7, CpuId(3));
            assert_eq!(last_arrival.is_leader_of(Round(round)), round == 7);
            assert!(!last_arrival.is_leader_of(Round(round + 1)));
            assert_eq!(last_arrival.missing_from(Round(round)), None);
            assert_eq!(last_arrival.missing_from(Round(round + 1)), Some(Some(CpuId(3))));
        }
    }

    #[test]
    fn a_party_that_has_left_is_not_missing() {
        let last_arrival = LastArrival::none();
        assert!(!last_arrival.is_leaving());
        last_arrival.leave();
        assert!(last_arrival.is_leaving());
        assert!(!last_arrival.is_leader_of(Round(u64::from(u32::MAX))));
        assert_eq!(last_arrival.missing_from(Round(0)), None);
    }

    #[test]
    fn a_party_that_is_ahead_is_not_missing() {
        let last_arrival = LastArrival::none();
        last_arrival.publish(Round(8), false, CpuId(0));
        assert_eq!(last_arrival.missing_from(Round(7)), None);
    }
}
