//! Experiments in worlds without a clock.

mod continued;
mod contract;
mod fg;
mod mock;
mod page;
mod paper;
mod parallel;
mod pipeline;
mod report_notes;
mod threads;
mod until;
