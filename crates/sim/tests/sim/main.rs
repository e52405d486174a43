//! Tests of the simulated machine from outside: small cases by hand, laws, and golden outcomes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot continue has failed")]

mod arrival;
mod cfs;
mod coscheduling;
mod counters;
mod eevdf;
mod extremes;
mod feedback;
mod fiber_workers;
mod fibers;
mod fifo;
mod fingerprint;
mod golden;
mod laws;
mod linux_2_4;
mod linux_o1;
mod lock;
mod messages;
mod network;
mod nice;
mod pipeline;
mod reference;
mod rr;
mod rules;
mod shared_cells;
mod slices;
mod solo;
mod timeline;
mod topology;
mod turns;
