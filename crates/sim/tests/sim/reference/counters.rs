//! The counters at which the threads of a job arrive, if cache lines take time. Times are in steps.

use scenario::{Arrivals, Machine};

use crate::reference::machine::in_steps;
use crate::reference::world::Cpu;

/// The counters of one job: levels, the leaves first.
pub(crate) struct Counters {
    transfer: u64,
    fan_in: usize,
    levels: Vec<Vec<Counter>>,
}

struct Counter {
    awaited: usize,
    arrived: usize,
    /// The CPU that asked last for the line, and when it has it.
    owner: Option<Cpu>,
    since: u64,
}

/// A level, and the place of a counter in it.
pub(crate) type Place = (usize, usize);

impl Counters {
    /// `None` if they take no time.
    pub(crate) fn new(machine: &Machine, threads: usize) -> Option<Counters> {
        let transfer = in_steps(machine.line_transfer, machine.step);
        let is_tree = match machine.arrivals {
            Arrivals::BySize => threads >= 32,
            Arrivals::Counter => false,
            Arrivals::Tree => true,
        };
        let (fan_in, mut below, mut levels) = (if is_tree { 8 } else { threads }, threads, Vec::new());
        loop {
            let mut level = Vec::new();
            for first in (0..below).step_by(fan_in) {
                let awaited = (below - first).min(fan_in);
                level.push(Counter { awaited, arrived: 0, owner: None, since: 0 });
            }
            below = level.len();
            levels.push(level);
            if below == 1 {
                return (transfer > 0).then_some(Counters { transfer, fan_in, levels });
            }
        }
    }

    /// Where the thread with this number in its job arrives.
    pub(crate) fn leaf(&self, number: usize) -> Place {
        (0, number / self.fan_in)
    }

    /// A CPU asks for a line. Returns for how long it waits.
    pub(crate) fn ask(&mut self, (level, place): Place, cpu: Cpu, now: u64) -> u64 {
        let counter = &mut self.levels[level][place];
        let free = counter.since.max(now);
        counter.since = if counter.owner.is_none_or(|owner| owner == cpu) { free } else { free + self.transfer };
        counter.owner = Some(cpu);
        counter.since - now
    }

    /// A thread counts. Returns where it counts next, if it goes on.
    pub(crate) fn count(&mut self, (level, place): Place) -> Option<Place> {
        let counter = &mut self.levels[level][place];
        counter.arrived += 1;
        if counter.arrived < counter.awaited {
            return None;
        }
        counter.arrived = 0;
        (level + 1 < self.levels.len()).then_some((level + 1, place / self.fan_in))
    }
}
