#![doc = include_str!("../../arrivals.md")]

use std::collections::TryReserveError;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use policy::arrival::{self, Node};

use crate::protocol::generation::{Generation, GenerationWord, Round};
use crate::protocol::padded::Padded;
use crate::sync::{self, AtomicU64};

/// The counters of the arrivals at one barrier, each on its own cache lines.
#[derive(Debug)]
pub(crate) struct ArrivalTree {
    shape: arrival::ArrivalTree,
    /// The number of arrivals at each node since the beginning.
    counts: Box<[Padded<AtomicU64>]>,
}

impl ArrivalTree {
    /// Counters of this shape. `None` if that is a single one, which the barrier has anyway.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn new(shape: arrival::ArrivalTree) -> Result<Option<ArrivalTree>, TryReserveError> {
        if shape.is_counter() {
            return Ok(None);
        }
        let (mut counts, nodes) = (Vec::new(), shape.nodes());
        counts.try_reserve_exact(nodes as usize)?;
        counts.extend((0..nodes).map(|_| Padded(AtomicU64::new(0))));
        Ok(Some(ArrivalTree { shape, counts: counts.into() }))
    }

    /// Arrives, if possible at the leaf of the party with this number. Returns the number of the
    /// arrival. `None` if the ticket counter must count it.
    #[inline]
    pub(crate) fn arrive(&self, word: &GenerationWord, party: Option<u32>) -> Option<u64> {
        // Threads that are created one after another have consecutive identifiers, which are in the
        // upper bits of the numbers of their clocks.
        let preferred = party.unwrap_or_else(|| (sync::own_clock() >> 3) % self.shape.threads());
        let preferred = self.shape.leaf_of(preferred);
        loop {
            let generation = word.generation();
            if generation.is_counted() {
                return None;
            }
            let drawn = self.draw(preferred, generation).map(|ticket| (preferred, ticket));
            if let Some((leaf, ticket)) = drawn.or_else(|| self.draw_elsewhere(preferred, generation)) {
                return Some(self.climb(leaf, ticket));
            }
            // All parties have arrived, and yet one more arrives before they are released.
            if word.count_from(generation) {
                return None;
            }
        }
    }

    /// Draws a ticket at a leaf. `None` if it is full in this round.
    #[inline]
    fn draw(&self, leaf: Node, generation: Generation) -> Option<u64> {
        let count = self.count(leaf);
        let mut ticket = count.load(Relaxed);
        while generation.is_before(round_of(leaf, ticket)) {
            match count.compare_exchange(ticket, ticket + 1, AcqRel, Relaxed) {
                Ok(_) => return Some(ticket),
                Err(actual) => ticket = actual,
            }
        }
        None
    }

    /// Draws a ticket at the first leaf after this one that is not full in this round.
    #[cold]
    fn draw_elsewhere(&self, full: Node, generation: Generation) -> Option<(Node, u64)> {
        let mut others = (full.number + 1..self.shape.leaves()).chain(0..full.number);
        others.find_map(|number| {
            let leaf = self.shape.leaf(number);
            Some((leaf, self.draw(leaf, generation)?))
        })
    }

    /// Goes on from node to node as long as this is the last arrival. Returns its number.
    #[inline]
    fn climb(&self, leaf: Node, ticket: u64) -> u64 {
        let (mut node, mut ticket) = (leaf, ticket);
        while (ticket + 1) % u64::from(node.awaited) == 0
            && let Some(parent) = self.shape.parent(node)
        {
            node = parent;
            ticket = self.count(node).fetch_add(1, AcqRel);
        }
        let (Round(round), awaited) = (round_of(node, ticket), u64::from(node.awaited));
        round * u64::from(self.shape.threads()) + u64::from(node.first) + ticket % awaited
    }

    /// Whether the arrival with this number has happened, if the tree counts it.
    pub(crate) fn has_happened(&self, number: u64) -> bool {
        let threads = u64::from(self.shape.threads());
        let place = (number % threads) as u32;
        let node = self.shape.node_of_place(place);
        self.count(node).load(Relaxed) > number / threads * u64::from(node.awaited) + u64::from(place - node.first)
    }

    /// The number of arrivals that the tree has counted. After the switch to the ticket counter all
    /// of them.
    pub(crate) fn arrivals(&self) -> u64 {
        (0..self.shape.leaves()).map(|number| self.count(self.shape.leaf(number)).load(Relaxed)).sum()
    }

    /// The number of arrivals in the rounds that the tree has counted. Only after the switch to the
    /// ticket counter, when no leaf changes any more.
    pub(crate) fn arrivals_before_counter(&self) -> u64 {
        let leaf = self.shape.leaf(0);
        round_of(leaf, self.count(leaf).load(Relaxed)).0 * u64::from(self.shape.threads())
    }

    fn count(&self, node: Node) -> &AtomicU64 {
        &self.counts[node.number as usize].0
    }
}

/// The round to which a ticket of a node belongs.
fn round_of(node: Node, ticket: u64) -> Round {
    Round(ticket / u64::from(node.awaited))
}
