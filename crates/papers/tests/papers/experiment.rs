//! Experiments in worlds without a clock.

mod continued;
mod contract;
mod doubt;
mod fg;
mod mock;
mod page;
mod paper;
mod parallel;
mod pipeline;
mod threads;
mod until;
