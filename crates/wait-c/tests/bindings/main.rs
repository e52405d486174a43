//! The integration tests of `wait-c`, in one program.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod c;
mod header;
