//! Fibers for C: threads, mutexes and condition variables with names `my_pthread_*`, which mean the
//! same as their namesakes in POSIX.
//!
//! The header is `include/my_pthread.h`. The first call turns the main thread into the first fiber
//! of a runtime with one worker, which lasts as long as the process. C functions are never unwound:
//! a thread that calls `my_pthread_exit` jumps straight back to where it began. On a deadlock the
//! process ends with a message.
//!
//! Any pointer may be null: that is an error, and the pointer is not followed. The caller promises
//! that other pointers are valid, as everywhere in C. A panic would end the program, because these
//! functions do not unwind.
#![allow(unsafe_code)] // It exports symbols, follows C's pointers, and leaves threads.
#![allow(unreachable_pub)] // Exported functions are found by their symbols.

mod arch;
mod condvar;
mod mutex;
mod object;
mod runtime;
mod thread;
