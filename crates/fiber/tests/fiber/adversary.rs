//! Everything that a program may be doing when it is interrupted, done by many fibers at once that are interrupted as often as can be, by others that are not
//! preemptible, and by the first one; with one worker and with two. Each has results that it knows, and all of it is code that was written for kernel threads.
//!
//! Each case has a process of its own. `ROWLOCK_SOAK_SECONDS` says for how long it lasts at least,
//! else it is over after some hundred interruptions; and with `ROWLOCK_ADVERSARY_THREADS`
//! preemptible fibers have kernel threads.

#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed; and it does what programs do, in C too"
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
