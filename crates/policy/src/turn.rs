//! Whose turn it is: every cell computes the active slice by itself, from its clock.
//!
//! Source: Suzaki and Walsh, "Scheduling on AP/Linux for Fine and Coarse Grain Parallel Processes",
//! section 3.3. A table of turns goes to all cells once, with the time from which it counts. From
//! then on no message is needed: the active slice follows from the time alone. A cell that has
//! missed a boundary computes the slice that is active now, so the next look makes good for it.
//!
//! Deviations: slices may have unequal shares of the time, which the source does not say. A new
//! table takes effect at a boundary of the old one, where the source restarts at the moment of the
//! message. So two cells whose clocks differ by a skew give different answers only within that skew
//! of a boundary, also while tables change. The publisher must choose a boundary that is later than
//! the arrival of the table at every cell.
//!
//! The publisher is a [`Rotation`]: it orders the slices of a table.

mod rotation;

pub use rotation::{LARGEST_WEIGHT, LONGEST_ROUND, PublishedTable, Rotation, TurnError, WaitingSince, round_of_jobs};

use crate::units::{Instant, Span};

/// A table of turns, as published to all cells: from its reference time on, its slices are active
/// in this order, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TurnTable {
    /// Its version: larger ones replace smaller ones.
    pub version: u64,
    /// The boundary from which it is in force.
    pub reference: Instant,
    /// How long a slice is active; zero counts as one nanosecond.
    pub slice: Span,
    /// The slices, by their numbers in the table of slices: each as often as its reduced weight.
    /// Empty if no job takes turns.
    pub order: Vec<u32>,
}

impl TurnTable {
    /// The slice that is active at `now`. `None` without slices, and before the reference time.
    pub fn active(&self, now: Instant) -> Option<u32> {
        let place = self.turns_until(now)?.checked_rem(self.order.len() as u64)?;
        self.order.get(place as usize).copied()
    }

    /// The slices of one round, in the order of their turns, from the one on that is active at
    /// `now`. None before the reference time.
    pub fn round_from(&self, now: Instant) -> impl Iterator<Item = u32> {
        let place = self.turns_until(now).and_then(|turns| turns.checked_rem(self.order.len() as u64));
        let (before, from) = self.order.split_at(place.unwrap_or(0) as usize);
        from.iter().chain(before).copied().filter(move |_| place.is_some())
    }

    /// The first boundary after `now`: the end of the turn, or the reference time if that is still
    /// to come. The end of time if there is none.
    pub fn next_boundary(&self, now: Instant) -> Instant {
        let Some(turns) = self.turns_until(now) else { return self.reference };
        let elapsed = turns.saturating_add(1).saturating_mul(self.slice_nanos());
        self.reference + Span::from_nanos(elapsed)
    }

    /// How many turns have ended by `now`. `None` before the reference time.
    fn turns_until(&self, now: Instant) -> Option<u64> {
        Some(now.as_nanos().checked_sub(self.reference.as_nanos())? / self.slice_nanos())
    }

    fn slice_nanos(&self) -> u64 {
        self.slice.as_nanos().max(1)
    }
}

/// The tables that a cell knows. It keeps them until it is told to [forget](Turns::forget_before)
/// those that are too old.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// In the order of their reference times and versions.
    tables: Vec<TurnTable>,
}

impl Turns {
    /// A cell that knows no table: no slice is active.
    pub const fn new() -> Turns {
        Turns { tables: Vec::new() }
    }

    /// Learns of a table. It replaces all known ones from its reference time on. Returns `false`
    /// and ignores it if a table of this or a later version is known.
    pub fn publish(&mut self, table: TurnTable) -> bool {
        if self.tables.last().is_some_and(|newest| newest.version >= table.version) {
            return false;
        }
        self.tables.retain(|known| known.reference < table.reference);
        self.tables.push(table);
        true
    }

    /// Forgets the tables that no clock needs that shows `earliest` or a later time: all before the
    /// one in force then.
    pub fn forget_before(&mut self, earliest: Instant) {
        let in_force = self.tables.iter().rposition(|table| table.reference <= earliest);
        self.tables.drain(..in_force.unwrap_or(0));
    }

    /// The tables that are known, in the order of their reference times.
    pub fn known(&self) -> &[TurnTable] {
        &self.tables
    }

    /// The version of the first table that is known. `None` if there is none.
    pub fn oldest(&self) -> Option<u64> {
        self.tables.first().map(|table| table.version)
    }

    /// The table in force at `now`. `None` before the reference time of the first one.
    pub fn in_force(&self, now: Instant) -> Option<&TurnTable> {
        self.tables.iter().rfind(|table| table.reference <= now)
    }

    /// The slice that is active at `now`. `None` if no job takes turns.
    pub fn active(&self, now: Instant) -> Option<u32> {
        self.in_force(now)?.active(now)
    }

    /// The reference time of the next table. `None` if none is known that is not in force at `now`.
    pub fn next_table(&self, now: Instant) -> Option<Instant> {
        self.tables.iter().map(|table| table.reference).find(|&reference| reference > now)
    }

    /// The first boundary after `now`: the end of the turn, or the reference time of the next table
    /// if that is earlier. `None` if no table is known.
    pub fn next_boundary(&self, now: Instant) -> Option<Instant> {
        let next = self.next_table(now);
        let end = self.in_force(now).map(|table| table.next_boundary(now));
        end.into_iter().chain(next).min()
    }
}

#[cfg(test)]
mod tests;
