//! The objects of `rowlock-wait` for C and C++: barriers, locks and signals whose threads wait by a
//! rule.
//!
//! The header `include/rowlock_wait.h` is generated from these modules, including their comments.
//! So the comments of exported items are written for C programmers, except for the sections about
//! safety, which the header does not have. The guide is `docs/c.md`.
//!
//! Exported functions take pointers as optional references: a null pointer is an error and never
//! dereferenced. As usual in C, the caller guarantees that other pointers are valid. A panic aborts
//! the program, since these functions do not unwind.
#![allow(unsafe_code)] // Linker names, and C arguments: strings, words and thread-bound borrows.
#![allow(unreachable_pub)] // Exported functions are reached by their linker names.

mod argument;
mod barrier;
mod condvar;
mod event;
mod failure;
mod latch;
mod mutex;
mod rwlock;
mod semaphore;
mod word;
