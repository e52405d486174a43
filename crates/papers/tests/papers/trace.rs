//! Traces: what is written is read back, and a simulation's trace shows what happened in it.

mod history;
mod observation;
mod round_trip;
mod simulation;
