//! The integration tests of `preload`, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../common/library.rs"]
mod library;
mod mpi;
mod openmp;
