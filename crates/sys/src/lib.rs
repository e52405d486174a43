#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]

#[allow(unsafe_code)] // Passes a description of a timer to the kernel.
pub mod alarm;
pub mod block_device;
pub mod cgroups;
#[allow(unsafe_code)] // Divides a process between fork and exec.
pub mod containment;
#[allow(unsafe_code)] // Calls the C library instead of a system call.
pub mod cpus;
#[allow(unsafe_code)] // Installs a signal handler.
pub mod deferred_stops;
#[allow(unsafe_code)] // Runs async-signal-safe code between fork and exec.
pub mod descriptors;
#[allow(unsafe_code)] // Views integers and floats as bytes.
pub mod elements;
mod errno;
#[allow(unsafe_code)] // Creates a trial mapping.
pub mod executable;
#[allow(unsafe_code)] // Installs a signal handler and an alternate stack.
pub mod fault;
pub mod files;
#[allow(unsafe_code)] // Passes the address of half a word to the kernel.
pub mod futex;
#[allow(unsafe_code)] // Changes parameters of the C library.
pub mod heap;
pub mod identity;
pub mod load;
pub mod memory;
#[allow(unsafe_code)] // Starts and ends threads of the C library.
pub mod native_thread;
#[allow(unsafe_code)] // Views memory from the kernel as bytes.
pub mod pages;
#[allow(unsafe_code)] // Reads an option of a socket as a C structure.
pub mod peer;
#[allow(unsafe_code)] // Keeps a raw pointer per thread in the C library.
pub mod per_thread;
#[allow(unsafe_code)] // Passes a description of a counter to the kernel.
pub mod perf;
pub mod pressure;
#[allow(unsafe_code)] // Installs signal handlers, and calls those that other code has installed.
mod previous_handler;
pub mod priorities;
#[allow(unsafe_code)] // Runs async-signal-safe code between fork and exec.
pub mod process;
#[allow(unsafe_code)] // Passes the address of a buffer to the kernel.
pub mod process_memory;
#[allow(unsafe_code)] // Manages address space whose pages may be inaccessible.
pub mod reservation;
#[allow(unsafe_code)] // Reads a variable of the C library that may be absent.
pub mod rseq;
#[allow(unsafe_code)] // Passes scheduling attributes to and from the kernel.
pub mod scheduling;
#[allow(unsafe_code)] // Passes filters of system calls, and answers, to the kernel.
pub mod seccomp;
#[allow(unsafe_code)] // Views memory that other processes write to as Rust types.
pub mod shared_memory;
#[allow(unsafe_code)] // Manipulates the signal sets of the C library.
pub mod signals;
pub mod task_group;
#[allow(unsafe_code)] // Starts a thread on given memory and ends only its kernel thread.
pub mod thread_block;
#[allow(unsafe_code)] // Reads the CPU clocks of threads, which the C library names.
pub mod thread_clock;
#[allow(unsafe_code)] // Runs destructors, and gives thread-locals their initial values.
pub mod thread_end;
#[allow(unsafe_code)] // Installs a signal handler that inspects what it interrupts.
pub mod tick;
pub mod traffic;
pub mod unnamed;
#[allow(unsafe_code)] // Copies words by vectors.
pub mod words;
#[allow(unsafe_code)] // Passes a range of a file to a system call.
pub mod write_back;
