//! The advice of the barrier paper on later kernels: whether it holds, and which rule is best.
//!
//! The advice is to spin for a little more than twice CS if there are fewer threads than twice the
//! CPUs. [`grid`] defines the runs, [`conclusions`] judges them, and [`text`] and [`plot`] present
//! the result. Everything is simulated.

pub mod conclusions;
pub mod grid;
pub mod plot;
pub mod text;
