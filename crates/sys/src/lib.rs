#![doc = include_str!("../README.md")]

pub mod block_device;
pub mod cgroups;
#[allow(unsafe_code)] // The C library is asked for what rustix would ask the kernel.
pub mod cpus;
#[allow(unsafe_code)] // A mapping is made, to see whether it can be.
pub mod executable;
#[allow(unsafe_code)] // What a signal does is set, and what runs then.
pub mod fault;
pub mod futex;
#[allow(unsafe_code)] // The kernel is given the address of half a word.
pub mod futex_u64;
pub mod identity;
#[allow(unsafe_code)] // Memory from the kernel is seen as bytes.
pub mod pages;
#[allow(unsafe_code)] // The C library keeps a pointer for each thread.
pub mod per_thread;
#[allow(unsafe_code)] // The kernel reads a description of what it shall count.
pub mod perf;
pub mod pressure;
#[allow(unsafe_code)] // A handler that somebody else has installed is called.
mod previous_handler;
pub mod priorities;
#[allow(unsafe_code)] // What runs between fork and exec must be async-signal-safe.
pub mod process;
#[allow(unsafe_code)] // Memory from the kernel, whose pages may be touched or not.
pub mod reservation;
#[allow(unsafe_code)] // The C library tells what it has registered by a variable that not every one has.
pub mod rseq;
#[allow(unsafe_code)] // The kernel reads and writes descriptions of how a thread is scheduled.
pub mod scheduling;
#[allow(unsafe_code)] // What other processes write to is seen as Rust's types.
pub mod shared_memory;
#[allow(unsafe_code)] // Sets of signals are the C library's.
pub mod signals;
#[allow(unsafe_code)] // The C library starts a thread on memory that it is given, and half ends it.
pub mod thread_block;
#[allow(unsafe_code)] // What a signal does is set, and what it has interrupted is looked at.
pub mod tick;
pub mod traffic;
#[allow(unsafe_code)] // The C library is told to send a part of a file to the disk.
pub mod write_back;
