//! Traces: what is written is what is read back, and a simulation's trace is what happened in it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod history;
mod observation;
mod round_trip;
mod simulation;
