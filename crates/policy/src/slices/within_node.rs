//! Slices for jobs that may have other cells in another slice.
//!
//! Source: our own. Jobs that keep their cells leave some unused: with five jobs of 2 x 2 on 8 x 2
//! cells, two of them share their cells, and both need 2 times the time of one. If jobs move, five
//! slices lack one job each, and all need 1.25 times the time of one.
//!
//! 1. Slices are filled one after the other. The job that has had the smallest share so far, in
//!    proportion to its weight, goes first; of equal ones, the one that was placed first. Each that
//!    has room enters: on its own cells if they are free, or on others, possibly turned.
//! 2. This ends if all shares are equal, since it would repeat, or if the limit is reached.
//! 3. Of the tables of the first slice, the first two slices and so on, the one counts that gives
//!    the least served job the largest share, of equal ones the shortest.
//! 4. The jobs of a slice whose own cells are free get these before the others get theirs, unless
//!    one would have no room then. So fewer jobs move.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Slice;
use crate::layout::{Mesh, Occupancy, Partitioner, Rectangle, Request};
use crate::units::JobId;

/// The most slices: at 50 ms each, a round takes 3 s.
const MOST_SLICES: usize = 64;

/// A job to enter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) job: JobId,
    pub(super) weight: u32,
    /// Its own cells.
    pub(super) rectangle: Rectangle,
}

/// A share in proportion to a weight, as a fraction.
#[derive(Clone, Copy, Debug)]
struct Share {
    part: u64,
    whole: u64,
}

impl Share {
    const ZERO: Share = Share { part: 0, whole: 1 };

    fn compare(self, other: Share) -> Ordering {
        let cross = |part: u64, whole: u64| u128::from(part) * u128::from(whole);
        cross(self.part, other.whole).cmp(&cross(other.part, self.whole))
    }
}

/// A table of at most `most` slices that gives the least served of the candidates, which are in the
/// order in which they were placed, a larger share than `table`. `None` if there is none.
pub(super) fn improve(
    table: &[Slice],
    mesh: Mesh,
    partitioner: Partitioner,
    candidates: &[Candidate],
    most: usize,
) -> Option<Vec<Slice>> {
    let (filled, least) = fill(mesh, partitioner, candidates, most.min(MOST_SLICES));
    least.compare(least_share(table, candidates)).is_gt().then_some(filled)
}

/// Fills slices until all shares are equal, or until there are `most`. Returns the best ones, and
/// the share of the least served candidate.
fn fill(mesh: Mesh, partitioner: Partitioner, candidates: &[Candidate], most: usize) -> (Vec<Slice>, Share) {
    let mut shares: Vec<Share> =
        candidates.iter().map(|candidate| Share { part: 0, whole: candidate.weight.into() }).collect();
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    let (mut slices, mut best, mut best_least) = (Vec::new(), 0, Share::ZERO);
    while slices.len() < most {
        order.sort_by(|&one, &other| shares[one].compare(shares[other]).then(one.cmp(&other)));
        let jobs = Packing { occupancy: Occupancy::new(mesh), partitioner, candidates, jobs: Vec::new() }.pack(&order);
        jobs.iter().for_each(|&(place, _)| shares[place].part += 1);
        let jobs = jobs.into_iter().map(|(place, rectangle)| (candidates[place].job, rectangle)).collect();
        slices.push(Slice { jobs, weight: 1 });
        let Some(&least) = shares.iter().min_by(|one, other| one.compare(**other)) else { break };
        let of_all = Share { whole: least.whole * slices.len() as u64, ..least };
        if of_all.compare(best_least).is_gt() {
            (best, best_least) = (slices.len(), of_all);
        }
        if shares.iter().all(|share| share.compare(least).is_eq()) {
            break;
        }
    }
    slices.truncate(best);
    (slices, best_least)
}

/// A slice while it is filled.
#[derive(Clone)]
struct Packing<'a> {
    occupancy: Occupancy,
    partitioner: Partitioner,
    candidates: &'a [Candidate],
    /// The places of its jobs among the candidates, with their cells in this slice.
    jobs: Vec<(usize, Rectangle)>,
}

impl Packing<'_> {
    /// The candidates that have room in this order, those first whose own cells are free.
    fn pack(self, order: &[usize]) -> Vec<(usize, Rectangle)> {
        let mut in_order = self.clone();
        in_order.enter_all(order);
        let chosen: Vec<usize> = in_order.jobs.iter().map(|&(place, _)| place).collect();
        let mut own_first = self;
        let others: Vec<usize> = chosen.iter().copied().filter(|&place| !own_first.enter_own(place)).collect();
        own_first.enter_all(&others);
        if own_first.jobs.len() < chosen.len() {
            return in_order.jobs;
        }
        // There may be more room than before.
        let mut is_chosen = vec![false; own_first.candidates.len()];
        chosen.iter().for_each(|&place| is_chosen[place] = true);
        let rest: Vec<usize> = order.iter().copied().filter(|&place| !is_chosen[place]).collect();
        own_first.enter_all(&rest);
        own_first.jobs
    }

    /// Enters those that have room: on their own cells if these are free, or on others.
    fn enter_all(&mut self, places: &[usize]) {
        for &place in places {
            if self.occupancy.free_cells() == 0 {
                break;
            }
            let request = Request::Rectangle(self.candidates[place].rectangle.shape);
            if !self.enter_own(place)
                && let Some(other) = self.partitioner.find(&self.occupancy, request)
            {
                self.occupancy.take(other);
                self.jobs.push((place, other));
            }
        }
    }

    /// Enters a candidate on its own cells if they are free.
    fn enter_own(&mut self, place: usize) -> bool {
        let own = self.candidates[place].rectangle;
        let is_free = self.occupancy.take(own);
        if is_free {
            self.jobs.push((place, own));
        }
        is_free
    }
}

/// The share of the least served candidate.
fn least_share(slices: &[Slice], candidates: &[Candidate]) -> Share {
    let all: u64 = slices.iter().map(|slice| u64::from(slice.weight)).sum();
    let mut parts = BTreeMap::<JobId, u64>::new();
    for slice in slices {
        slice.jobs.iter().for_each(|&(job, _)| *parts.entry(job).or_default() += u64::from(slice.weight));
    }
    let share = |candidate: &Candidate| Share {
        part: parts.get(&candidate.job).copied().unwrap_or(0),
        whole: u64::from(candidate.weight).saturating_mul(all),
    };
    candidates.iter().map(share).min_by(|one, other| one.compare(*other)).unwrap_or(Share::ZERO)
}
