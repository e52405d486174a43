//! The counters at which the threads of a job arrive at its barrier, if cache lines take time.
//!
//! A thread that has computed writes the counter of its leaf, and the last one of a counter writes
//! the next one, as in `policy::arrival`. To write, its CPU needs the counter's cache line. If
//! another CPU wrote it last, that takes `line_transfer`, and transfers of one line come one after
//! another, in the order in which threads ask. Meanwhile the thread occupies its CPU. A thread that
//! loses its CPU keeps its place and goes on with the rest later: the line is a short time away, and
//! the others do not wait for it.

use policy::arrival::{ArrivalTree, FAN_IN, Node};
use policy::{CpuId, Instant, Span};
use scenario::{Arrivals, Machine};

#[derive(Clone, Debug)]
pub(crate) struct Counters {
    tree: ArrivalTree,
    transfer: Span,
    /// By the numbers of their nodes.
    counters: Vec<Counter>,
}

#[derive(Clone, Debug)]
struct Counter {
    node: Node,
    /// The number of arrivals in this round.
    arrivals: u32,
    /// The CPU that was the last to ask for the line, and when it has it.
    line: Option<(CpuId, Instant)>,
}

impl Counters {
    /// Counters for a team of this size. `None` if they take no time, or if the team meets by the
    /// hardware barrier of a machine with cells.
    pub(crate) fn new(machine: &Machine, threads: u32) -> Option<Counters> {
        if machine.line_transfer.is_zero() || machine.cells.is_some() {
            return None;
        }
        let tree = match machine.arrivals {
            Arrivals::BySize => ArrivalTree::of(threads),
            Arrivals::Counter => ArrivalTree::with_fan_in(threads, u32::MAX),
            Arrivals::Tree => ArrivalTree::with_fan_in(threads, FAN_IN),
        };
        let counters = tree.all().map(|node| Counter { node, arrivals: 0, line: None }).collect();
        Some(Counters { tree, transfer: machine.line_transfer, counters })
    }

    /// The counter at which the thread with this number in its job arrives.
    pub(crate) fn first(&self, thread: usize) -> u32 {
        self.tree.leaf_of(thread as u32)
    }

    /// A CPU asks for the line of a counter. Returns how long it waits for it.
    pub(crate) fn fetch(&mut self, counter: u32, cpu: CpuId, now: Instant) -> Span {
        let line = &mut self.counters[counter as usize].line;
        let (owner, since) = line.unwrap_or((cpu, now));
        let transfer = if owner == cpu { Span::ZERO } else { self.transfer };
        let at = since.max(now) + transfer;
        *line = Some((cpu, at));
        at.since(now)
    }

    /// A thread has written a counter. Returns the next one if its arrival was the last there.
    pub(crate) fn count(&mut self, counter: u32) -> Option<u32> {
        let Counter { node, arrivals, .. } = &mut self.counters[counter as usize];
        *arrivals += 1;
        if *arrivals < node.awaited {
            return None;
        }
        *arrivals = 0;
        self.tree.parent(*node).map(|parent| parent.number)
    }
}
