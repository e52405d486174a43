//! The objects of `rowlock-wait` for C and C++: barriers, locks and signals whose waits go by a waiting rule.
//!
//! What C sees is the header `include/rowlock_wait.h`, which is generated from these modules, their comments included; so
//! comments on what is exported speak of C. The guide is `docs/c.md`.
//!
//! Everything exported takes pointers as references that may be missing: a null pointer is an error and never followed, while that a
//! pointer that is not null points to what it should is the caller's promise, as everywhere in C. A panic would end the
//! program, since these functions do not unwind.
#![allow(unsafe_code)] // Names for the linker, and what C passes: strings, words and thread-bound borrows.
#![allow(unreachable_pub)] // What is exported is reached by its name for the linker.
#![allow(clippy::missing_safety_doc)] // To those who call them, all functions of C are unsafe.

mod argument;
mod barrier;
mod condvar;
mod event;
mod failure;
mod latch;
mod mutex;
mod rwlock;
mod semaphore;
mod statistics;
mod word;
