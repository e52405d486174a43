//! The integration tests of `fiber`, in one program.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot continue has failed"
)]

mod adversary;
mod at_drop;
mod blocking;
mod calm;
mod deadlock;
mod debugger;
mod demotions;
mod descriptors;
mod deterministic;
mod dump;
mod everyone;
mod exhausted;
mod fibers_in_gdb;
mod grace;
mod inheritance;
mod kernel_threads;
mod kernel_waits;
mod life;
mod little_room;
mod moving;
mod mutex;
mod objects;
mod outside;
mod overflow;
mod posix_locks;
mod preempted_locks;
mod preemption;
mod random;
mod requested_ticks;
mod scripted;
mod signal_handlers;
mod sockets;
mod stacks;
mod thread_locals;
mod trust;
mod unwinding;
mod workers;
