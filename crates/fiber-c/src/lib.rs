//! Fibers for C: threads and the objects at which they wait, with names `my_pthread_*` and
//! `my_sem_*`, which mean the same as their namesakes in POSIX.
//!
//! The header is `include/my_pthread.h`; `include/my_pthread_port.h` lets programs use it under the
//! names of POSIX. The first call turns the main thread into the first fiber of a runtime with one
//! worker, which lasts as long as the process. All fibers are preemptible. C functions are never
//! unwound: a thread that calls `my_pthread_exit` jumps straight back to where it began. On a
//! deadlock the process ends with a message.
//!
//! Each function of C does its work [in the runtime](runtime), where no other fiber interrupts it.
//! So the state of this library needs no locks. Functions of the program are called outside.
//!
//! Any pointer may be null: that is an error, and the pointer is not followed. The caller promises
//! that other pointers are valid, as everywhere in C. A panic would end the program, because these
//! functions do not unwind.
#![allow(unsafe_code)] // It exports symbols, follows C's pointers, and leaves threads.
#![allow(unreachable_pub)] // Exported functions are found by their symbols.
#![allow(clippy::unit_arg)] // `Ok` of a call that cannot fail is the status of a C function.

#[macro_use]
mod runtime;

mod arch;
mod barrier;
mod condvar;
mod key;
mod mutex;
mod object;
mod once;
mod rwlock;
mod semaphore;
mod thread;
mod time;
