//! Plain memory that only the objects of this library order, for the thread sanitizer. Without it
//! these are ordinary tests.
//!
//! The standard library is not instrumented. So the threads of a test are joined one by one, the
//! memory lives as long as the program, and what a process determines once is determined before
//! there are threads. Then the detector sees everything that orders the accesses.
#![cfg(not(loom))]
#![allow(clippy::panic, reason = "a test that cannot continue has failed")]

mod barrier;
#[path = "../wait/costs.rs"]
mod costs;
mod locks;
mod signals;
