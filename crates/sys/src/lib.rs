#![doc = include_str!("../README.md")]

pub mod cpus;
#[allow(unsafe_code)] // The kernel is handed addresses to sleep on.
pub mod futex;
#[allow(unsafe_code)] // What runs between fork and exec must be async-signal-safe.
pub mod process;
