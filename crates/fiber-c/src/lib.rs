//! Fibers for C: threads, mutexes and condition variables by the names `my_pthread_*`, with the meaning of their namesakes in POSIX.
//!
//! What C sees is the header `include/my_pthread.h`. The first call makes the main thread's code the first fiber of a runtime of one worker, which
//! lasts as long as the process. Functions of C are never unwound: who leaves by `my_pthread_exit` goes straight back to where its thread began, and where no
//! thread can ever go on the process ends with a message.
//!
//! Every pointer may be null, which is an error and never followed; that a pointer that is not null points to what it should is the caller's promise, as everywhere
//! in C. A panic would end the program, since these functions do not unwind.
#![allow(unsafe_code)] // Names for the linker, what C passes, and how a thread is left.
#![allow(unreachable_pub)] // What is exported is reached by its name for the linker.
#![allow(clippy::missing_safety_doc)] // To those who call them, all functions of C are unsafe.

mod arch;
mod condvar;
mod mutex;
mod object;
mod runtime;
mod thread;
