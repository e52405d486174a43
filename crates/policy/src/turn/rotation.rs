//! The publisher of tables of turns: which slice is active how often, and in which order.
//!
//! One *round* of a table has each slice as often as its weight, divided by the greatest common
//! divisor of all weights.
//!
//! # The rule
//!
//! Let a slice have `w` of the `W` places of a round. Its k-th turn may be in a place from
//! `floor((k - 1) W / w)` to `ceil(k W / w) - 1`. A round is filled from its last place to its
//! first. Each place takes, of the turns that may still be there, the one that could be earliest.
//! Of several that could be equally early it takes the slice that has waited for the shortest time,
//! where a slice waits as long as the one of its jobs that has waited for the longest time.
//!
//! # Why weights hold
//!
//! The ranges are the windows of proportionate fairness (Baruah, Cohen, Plaxton and Varvel,
//! "Proportionate Progress", 1996; Tijdeman, "The chairman assignment problem", 1980). If all turns
//! are in their windows, then at every boundary each slice has had its share of the time since the
//! reference to within less than one turn. Earliest deadline first finds such an order, with any
//! order among equal deadlines. Seen from the end of the round, this rule is earliest deadline
//! first: the windows are symmetrical.
//!
//! # Why no job waits for long
//!
//! All first turns of slices could be in place 0, so they are as early as the weights allow, and of
//! those that need not be early because of their weight, the longest waiting comes first. So:
//!
//! * **The slice of the job that has waited for the longest time has place 0.** Assume that it is
//!   the only one that may be in a later place `s`. Then all other turns in the places up to `s`
//!   have to end before `s`. But there are fewer than `s` of them, as the shares of the other
//!   slices are less than one.
//! * In a table with `n` slices, at most `(m - 1) W / n` places are before the m-th first turn.
//!
//! Consider a job that waits, and the `p` slices (its own included) that have jobs which have
//! waited as long. Jobs that arrive or have a turn come later, so each turn of one of these slices
//! makes `p` smaller. **A job is active once in the longest round of the tables that are in force
//! while it waits** if the table does not change, if it changes at every boundary (`p` turns, and
//! `p` is at most `W`), and, however it changes, if weights are equal.
//!
//! # What no order can do
//!
//! * With unequal weights, and changes that come immediately before the turns of light slices, a
//!   job may wait for longer: for less than 1 + 1/2 + ... + 1/n of the longest round. It is less
//!   than a round until the first change, and then `W / p` places until `p` is smaller. Example:
//!   slices of weight 1 wait beside one of weight 1000, and each is released after its turn. After
//!   each change the heavy slice has a right to all but one of the next `W / p` places.
//! * A job of several slices may lose the one that would have been active next, because that slice
//!   is dropped or has to make room for another job, and its other slices may just have been
//!   active. Two such jobs need two turns instead of one. So a job may wait for one more turn for
//!   each time that a job which has waited as long enters another slice.

mod restore;

use std::collections::{BTreeMap, BinaryHeap};

pub use self::restore::{PublishedTable, WaitingSince};

use super::TurnTable;
use crate::slices::Slice;
use crate::units::{Instant, JobId, Span};

/// The largest weight of a job in a scenario.
pub const LARGEST_WEIGHT: u32 = 1_000;

/// The most places of a round.
pub const LONGEST_ROUND: u64 = 10_000;

/// How many places a round may have, if there are so many jobs of each of these weights, all of
/// them above zero: as many as if each job had a slice of its own.
pub fn round_of_jobs(weights: &[(u32, u64)]) -> u64 {
    let divisor = weights.iter().map(|&(weight, _)| weight).fold(0, greatest_common_divisor).max(1);
    let places = weights.iter().map(|&(weight, jobs)| u64::from(weight / divisor).saturating_mul(jobs));
    places.fold(0, u64::saturating_add)
}

/// The reason why no table of turns can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// A slice has a weight of zero.
    #[error("slice {0} has a weight of zero: write a weight from 1 to {LARGEST_WEIGHT}")]
    NoWeight(u32),
    /// The sum of the reduced weights is too large.
    #[error("a round of {0} turns is longer than {LONGEST_ROUND}: use fewer slices or weights with a common divisor")]
    TooLong(u64),
}

/// When a job began to wait, and whether it has been active before. A new job comes before one that
/// was active until the same boundary.
type Waiting = (Instant, bool);

/// The publisher. It remembers how long each job has waited.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// The last table.
    table: TurnTable,
    /// The jobs of its slices.
    slices: Vec<Vec<JobId>>,
    /// These jobs at its reference time.
    waiting: BTreeMap<JobId, Waiting>,
}

impl Rotation {
    /// A publisher whose slices are active for so long. It has published nothing yet.
    pub const fn new(slice: Span) -> Rotation {
        let table = TurnTable { version: 0, reference: Instant::ZERO, slice, order: Vec::new() };
        Rotation { table, slices: Vec::new(), waiting: BTreeMap::new() }
    }

    /// Makes the table that replaces the last one from `reference` on: a boundary of the last
    /// table, not before its reference time.
    ///
    /// # Errors
    ///
    /// [`TurnError`]. Then the last table remains.
    pub fn publish(&mut self, slices: &[Slice], reference: Instant) -> Result<TurnTable, TurnError> {
        let weights = reduced_weights(slices)?;
        let before = self.waiting_at(reference);
        let since = |job: &JobId| before.get(job).copied().unwrap_or((reference, false));
        let jobs = |slice: &Slice| slice.jobs.iter().map(|&(job, _)| job).collect();
        self.slices = slices.iter().map(jobs).collect();
        self.waiting = self.slices.iter().flatten().map(|job| (*job, since(job))).collect();

        let mut urgency: Vec<_> = self.slices.iter().map(|jobs| jobs.iter().map(since).min()).zip(0..).collect();
        urgency.sort_unstable();
        let longest_waiting_first = urgency.into_iter().map(|(_, slice)| slice).collect();
        let order = order(&weights, longest_waiting_first);
        self.table = TurnTable { version: self.table.version + 1, reference, slice: self.table.slice, order };
        Ok(self.table.clone())
    }

    /// The jobs of the last table, and how long they will have waited at `end`.
    fn waiting_at(&self, end: Instant) -> BTreeMap<JobId, Waiting> {
        let nanos = self.table.slice_nanos();
        // A turn that is cut short counts as well.
        let turns = end.since(self.table.reference).as_nanos().div_ceil(nanos);
        let round = self.table.order.len() as u64;
        let mut active_until = vec![None; self.slices.len()];
        for turn in turns.saturating_sub(round)..turns {
            let turn_end = self.table.reference + Span::from_nanos((turn + 1).saturating_mul(nanos));
            active_until[self.table.order[(turn % round) as usize] as usize] = Some(turn_end.min(end));
        }
        let mut waiting = self.waiting.clone();
        for (jobs, until) in self.slices.iter().zip(active_until) {
            let Some(until) = until else { continue };
            for job in jobs {
                waiting.entry(*job).and_modify(|since| *since = (*since).max((until, true)));
            }
        }
        waiting
    }
}

/// The weights divided by their greatest common divisor.
fn reduced_weights(slices: &[Slice]) -> Result<Vec<u64>, TurnError> {
    let zero = slices.iter().zip(0..).find(|(slice, _)| slice.weight == 0);
    if let Some((_, number)) = zero {
        return Err(TurnError::NoWeight(number));
    }
    let divisor = slices.iter().map(|slice| slice.weight).fold(0, greatest_common_divisor);
    let weights: Vec<u64> = slices.iter().map(|slice| u64::from(slice.weight / divisor)).collect();
    let round = weights.iter().sum();
    if round > LONGEST_ROUND { Err(TurnError::TooLong(round)) } else { Ok(weights) }
}

const fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The slices in the order of their turns in one round.
fn order(weights: &[u64], longest_waiting_first: Vec<u32>) -> Vec<u32> {
    let round: u64 = weights.iter().sum();
    let weight = |rank: usize| weights[longest_waiting_first[rank] as usize];
    // Turns by the end of their window, as (end, rank of the slice, number of the turn).
    let mut later: BinaryHeap<_> = (0..weights.len()).map(|rank| (round, rank, weight(rank))).collect();
    // Turns that may be in the present place, as (start of the window, rank, number).
    let mut possible = BinaryHeap::new();
    let mut order = Vec::new();
    for place in (0..round).rev() {
        while let Some((_, rank, turn)) = later.peek().copied().filter(|&(end, ..)| end > place) {
            later.pop();
            possible.push(((turn - 1) * round / weight(rank), rank, turn));
        }
        let Some((_, rank, turn)) = possible.pop() else { break };
        order.push(longest_waiting_first[rank]);
        if turn > 1 {
            later.push((((turn - 1) * round).div_ceil(weight(rank)), rank, turn - 1));
        }
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests;
