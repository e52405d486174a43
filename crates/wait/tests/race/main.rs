//! Plain memory that nothing but the library's objects orders, for the thread sanitizer; without it
//! these are tests like others.
//!
//! The standard library is not instrumented. So the threads of a test are joined one by one, the
//! memory lives as long as the program, and facts that are found out once in a process are found
//! out before there are threads: the detector then sees everything that orders them.
#![cfg(not(loom))]
#![allow(clippy::panic, reason = "a test that cannot go on has failed")]

mod barrier;
#[path = "../wait/costs.rs"]
mod costs;
mod locks;
mod signals;
