//! Experiments in worlds without a clock.

mod contract;
mod mock;
mod pipeline;
