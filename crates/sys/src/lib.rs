#![doc = include_str!("../README.md")]

pub mod cgroups;
#[allow(unsafe_code)] // The C library is asked for what rustix would ask the kernel.
pub mod cpus;
pub mod futex;
#[allow(unsafe_code)] // The kernel is given the address of half a word.
pub mod half;
pub mod identity;
#[allow(unsafe_code)] // The kernel reads a description of what it shall count.
pub mod perf;
#[allow(unsafe_code)] // The kernel reads and writes descriptions of how a thread is scheduled.
pub mod priorities;
#[allow(unsafe_code)] // What runs between fork and exec must be async-signal-safe.
pub mod process;
#[allow(unsafe_code)] // The C library tells what it has registered by a variable that not every one has.
pub mod rseq;
#[allow(unsafe_code)] // What other processes write to is seen as Rust's types.
pub mod shared_memory;
