//! Whether to spin, on later kernels: how close waiting rules come to the best fixed rule.
//!
//! [`grid`] draws machines and jobs, the [`cell`]s, by a [Latin hypercube](hypercube). [`runs`]
//! says which runs are missing, [`judgement`] compares rules in one cell, and [`conclusions`] sums
//! up. [`speed_ups`] over blocking are the paper's own measure. [`text`] and [`plot`] present the
//! result. Machines are simulated, but for this machine, whose cells and runs are in [`on_host`].

pub mod cell;
pub mod conclusions;
pub mod grid;
pub mod hypercube;
pub mod judgement;
pub mod on_host;
pub mod plot;
pub mod runs;
pub mod speed_ups;
pub mod text;
