//! The integration tests of `preload`, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot continue has failed")]
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

#[path = "../common/library.rs"]
mod library;
mod mpi;
mod openmp;
