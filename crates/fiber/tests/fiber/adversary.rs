//! Everything that a program may be doing when it is interrupted. Many fibers do it at once that
//! are interrupted as often as possible, and so do fibers that are not preemptible, and the first
//! one, with one worker and with two. Each case knows its results, and all of it is code that was
//! written for kernel threads.
//!
//! Each case has its own process. `ROWLOCK_SOAK_SECONDS` sets its minimum duration; without it
//! a case ends after some hundred interruptions. With `ROWLOCK_ADVERSARY_THREADS` preemptible
//! fibers have kernel threads.

#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot continue has failed; and it does what programs do, in C too"
)]

mod attached;
mod case;
mod endings;
mod libraries;
mod many;
mod memory;
mod output;
mod own;
mod panics;
mod processes;
mod registers;
mod signals;
mod standard;
mod threads;
