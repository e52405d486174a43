//! Real programs with fibers instead of threads: their outputs are the same.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod database;
mod images;
mod server;
