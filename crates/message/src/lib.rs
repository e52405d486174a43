#![doc = include_str!("../README.md")]
#![cfg_attr(loom, allow(dead_code, reason = "only the protocols are modelled"))]
#![forbid(unsafe_code)]

mod bell;
#[cfg(not(loom))]
mod collective;
#[cfg(not(loom))]
mod communicator;
#[cfg(not(loom))]
mod endpoint;
mod error;
mod matching;
#[cfg(not(loom))]
mod memory;
#[cfg(all(test, loom))]
#[allow(clippy::unwrap_used, reason = "a model that cannot continue has failed")]
mod model;
#[cfg(not(loom))]
mod request;
mod ring;
#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot continue has failed")]
mod tests;
mod word;

#[cfg(not(loom))]
pub use communicator::{Communicator, MEMORY, RANK, RANKS, Source, Status, Tag};
pub use error::{JoinError, MessageError};
#[cfg(not(loom))]
pub use memory::create;
#[cfg(not(loom))]
pub use request::{ReceiveRequest, SendRequest, Tested};

/// The most ranks of a job.
pub const MOST_RANKS: u32 = 1024;
