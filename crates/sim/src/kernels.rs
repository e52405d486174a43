//! The simulated kernels: one scheduler in each module, and what several of them share.

mod affinity;
pub mod cfs;
pub mod eevdf;
pub mod feedback;
pub mod fifo;
pub mod linux_2_4;
pub mod linux_o1;
pub(crate) mod nice;
mod occupancy;
mod queue;
pub mod roster;
pub mod rr;
