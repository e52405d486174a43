#![doc = include_str!("../../arrivals.md")]

use std::collections::TryReserveError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use policy::arrival::{self, Node};

use crate::protocol::generation::{Generation, GenerationWord, Round};
use crate::protocol::padded::Padded;
use crate::sync::{self, AtomicU64};

/// The counters of the arrivals at one barrier.
#[derive(Debug)]
pub(crate) struct ArrivalTree {
    shape: arrival::ArrivalTree,
    /// By the numbers of their nodes.
    counters: Box<[Padded<Counter>]>,
}

#[derive(Debug)]
struct Counter {
    node: Node,
    /// The number of arrivals since the beginning.
    arrivals: AtomicU64,
}

/// An arrival at a counter: its round, and how many came before it in that round.
#[derive(Clone, Copy)]
struct Ticket {
    round: Round,
    place: u32,
}

impl Counter {
    /// The ticket that is drawn next after so many arrivals.
    #[inline]
    fn ticket(&self, arrivals: u64) -> Ticket {
        let awaited = u64::from(self.node.awaited);
        Ticket { round: Round(arrivals / awaited), place: (arrivals % awaited) as u32 }
    }

    /// Draws a ticket if it is one of the round in progress. `None` if the counter has all arrivals
    /// of that round.
    #[inline]
    fn draw_in(&self, generation: Generation) -> Option<Ticket> {
        // A thread that finds the counter full has acquired what those did that filled it, and takes
        // that along if it makes the team go back to one counter.
        let mut arrivals = self.arrivals.load(Acquire);
        loop {
            let ticket = self.ticket(arrivals);
            if !generation.is_before(ticket.round) {
                return None;
            }
            match self.arrivals.compare_exchange(arrivals, arrivals + 1, AcqRel, Acquire) {
                Ok(_) => return Some(ticket),
                Err(actual) => arrivals = actual,
            }
        }
    }

    /// Draws a ticket for all that have arrived at the last counter.
    #[inline]
    fn draw(&self) -> Ticket {
        self.ticket(self.arrivals.fetch_add(1, AcqRel))
    }
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
        let mut counters = Vec::new();
        counters.try_reserve_exact(shape.nodes() as usize)?;
        counters.extend(shape.all().map(|node| Padded(Counter { node, arrivals: AtomicU64::new(0) })));
        Ok(Some(ArrivalTree { shape, counters: counters.into() }))
    }

    /// Arrives, if possible at the leaf of the party with this number. Returns the number of the
    /// arrival. `None` if the ticket counter must count it.
    #[inline]
    pub(crate) fn arrive(&self, word: &GenerationWord, party: Option<u32>) -> Option<u64> {
        // Threads that are created one after another have consecutive identifiers, which are in the
        // upper bits of the numbers of their clocks.
        let party = party.unwrap_or_else(|| (sync::own_clock() >> 3) % self.shape.threads());
        let preferred = self.shape.leaf_of(party);
        loop {
            let generation = word.generation();
            if generation.is_counted() {
                return None;
            }
            let leaf = self.counter(preferred);
            let drawn = leaf.draw_in(generation).map(|ticket| (leaf, ticket));
            if let Some((leaf, ticket)) = drawn.or_else(|| self.draw_elsewhere(preferred, generation)) {
                return Some(self.climb(leaf, ticket));
            }
            // All parties have arrived, and yet one more arrives before they are released.
            if word.count_from(generation) {
                return None;
            }
        }
    }

    /// Draws a ticket at the first leaf after this one that has room in this round.
    #[cold]
    fn draw_elsewhere(&self, full: u32, generation: Generation) -> Option<(&Counter, Ticket)> {
        let others = (full + 1..self.shape.leaves()).chain(0..full).map(|leaf| self.counter(leaf));
        others.into_iter().find_map(|leaf| Some((leaf, leaf.draw_in(generation)?)))
    }

    /// Goes on from counter to counter as long as this is the last arrival. Returns its number.
    #[inline]
    fn climb(&self, leaf: &Counter, ticket: Ticket) -> u64 {
        let (mut counter, mut ticket) = (leaf, ticket);
        while ticket.place == counter.node.awaited - 1
            && let Some(parent) = self.shape.parent(counter.node)
        {
            counter = self.counter(parent.number);
            ticket = counter.draw();
        }
        ticket.round.0 * u64::from(self.shape.threads()) + u64::from(counter.node.first + ticket.place)
    }

    /// Whether the arrival with this number has happened, if the tree counts it.
    pub(crate) fn has_happened(&self, number: u64) -> bool {
        let threads = u64::from(self.shape.threads());
        let (round, place) = (number / threads, (number % threads) as u32);
        let node = self.shape.node_of_place(place);
        let before = round * u64::from(node.awaited) + u64::from(place - node.first);
        self.counter(node.number).arrivals.load(Relaxed) > before
    }

    /// The number of arrivals that the tree has counted.
    pub(crate) fn arrivals(&self) -> u64 {
        (0..self.shape.leaves()).map(|leaf| self.counter(leaf).arrivals.load(Relaxed)).sum()
    }

    /// The number of arrivals in the rounds that the tree has counted. Only after the switch to the
    /// ticket counter, when no leaf changes any more.
    pub(crate) fn arrivals_before_counter(&self) -> u64 {
        let leaf = self.counter(0);
        leaf.ticket(leaf.arrivals.load(Relaxed)).round.0 * u64::from(self.shape.threads())
    }

    /// The counter of the node with this number.
    #[inline]
    fn counter(&self, number: u32) -> &Counter {
        &self.counters[number as usize].0
    }
}
