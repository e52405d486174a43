//! What a thread may assume of itself, checked in fibers. The table in the README lists the facts.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[allow(unsafe_code)] // It calls the C library.
mod c_library;
mod identity;
#[allow(unsafe_code)] // It asks the kernel.
mod kernel;
#[allow(unsafe_code)] // It calls the C library.
mod owners;
mod panics;
mod thread_locals;
