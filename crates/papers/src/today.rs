//! Whether to spin, on later kernels: how close waiting rules come to the best fixed rule.
//!
//! [`grid`] draws machines and jobs, the [`cell`]s, by a [Latin hypercube](hypercube). [`runs`] says
//! which runs are missing, [`judgement`] compares rules in one cell, and [`conclusions`] sums up.
//! [`text`] presents the result. Everything is simulated.

pub mod cell;
pub mod conclusions;
pub mod grid;
pub mod hypercube;
pub mod judgement;
pub mod runs;
pub mod text;
