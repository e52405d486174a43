//! Traces: what is written is what is read back, and a simulation's trace is what happened in it.

mod history;
mod observation;
mod round_trip;
mod simulation;
