//! Loom models of the protocols: all interleavings up to a bound on preemptions.
//!
//! `.ci/models rowlock-wait::loom::` runs them.
#![cfg(loom)]

mod arrivals;
mod barrier;
mod condvar;
mod mutex;
mod robust;
mod rwlock;
mod signals;
mod spinning_waiters;
