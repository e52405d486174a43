//! Whose turn it is: every cell computes the active slice by itself, from its clock.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes",
//! section 3.3.

use crate::units::{Instant, Span};

/// A table of turns, as published to all cells: from its reference time on, its slices are active
/// in this order, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnTable {
    /// Its version: larger ones replace smaller ones.
    pub version: u64,
    /// The boundary from which it is in force.
    pub reference: Instant,
    /// How long a slice is active, above zero.
    pub slice: Span,
    /// The slices, by their numbers in the table of slices: each as often as its reduced weight.
    /// Empty if no job takes turns.
    pub order: Vec<u32>,
}

impl TurnTable {
    /// The slice that is active at `now`. `None` without slices, and before the reference time.
    pub fn active(&self, now: Instant) -> Option<u32> {
        let turns = now.as_nanos().checked_sub(self.reference.as_nanos())? / self.slice.as_nanos().max(1);
        let place = turns.checked_rem(self.order.len() as u64)?;
        self.order.get(place as usize).copied()
    }
}
