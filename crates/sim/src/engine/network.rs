//! The network between the cells of the machine.
//!
//! A cell has one link on which it sends. A message to another cell leaves when the link is free,
//! occupies it for the time of its bytes, and arrives after that and the latency. A message within
//! a cell takes no time.

use policy::{Instant, Span};
use scenario::Machine;

#[derive(Clone, Debug)]
pub(crate) struct Network {
    latency: Span,
    /// When the link of each cell is free.
    free: Vec<Instant>,
}

impl Network {
    pub(crate) fn new(machine: &Machine) -> Network {
        let cells = machine.cells.map_or(1, policy::layout::Mesh::cells);
        Network { latency: machine.network.latency, free: vec![Instant::ZERO; cells as usize] }
    }

    /// Sends a message to another cell. Returns when it arrives.
    pub(crate) fn send(&mut self, now: Instant, cell: usize, transmission: Span) -> Instant {
        let free = &mut self.free[cell];
        *free = now.max(*free) + transmission;
        *free + self.latency
    }
}

#[cfg(test)]
mod tests {
    use policy::layout::{Mesh, Shape};

    use super::*;

    #[test]
    fn a_link_carries_one_message_at_a_time_and_links_do_not_delay_each_other() {
        let us = Span::from_micros;
        let machine = Machine { cells: Mesh::new(Shape { columns: 2, rows: 1 }), ..Machine::with_cpus(1) };
        let mut network = Network::new(&machine);
        let mut send = |at, cell, length| network.send(Instant::ZERO + us(at), cell, us(length));
        let arrivals = [send(10, 0, 3), send(11, 0, 2), send(11, 1, 2), send(20, 0, 1)];
        assert_eq!(arrivals, [18, 20, 18, 26].map(|at| Instant::ZERO + us(at)), "5 us of latency");
    }
}
