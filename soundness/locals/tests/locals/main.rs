//! Libraries that keep something in thread-locals, in strands that switch wherever their own code
//! can run. All programs are safe.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod arc_swaps;
mod epochs;
mod pools;
mod runtimes;
mod scoped;
mod spans;
mod standard;
mod values;
