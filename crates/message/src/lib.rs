#![cfg_attr(not(loom), doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "mpi"), forbid(unsafe_code))]
#![cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]

mod bell;
#[cfg(not(loom))]
mod collective;
#[cfg(not(loom))]
mod communicator;
#[cfg(not(loom))]
mod endpoint;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod join;
#[cfg(not(loom))]
mod matching;
#[cfg(not(loom))]
pub mod memory;
#[cfg(all(feature = "mpi", not(loom)))]
pub mod mpi;
#[cfg(not(loom))]
mod operation;
mod record;
#[cfg(not(loom))]
mod request;
mod ring;
#[cfg(not(loom))]
mod roster;
#[cfg(not(loom))]
mod sending;
#[cfg(not(loom))]
mod split;
mod sync;
#[cfg(not(loom))]
mod transport;
#[cfg(not(loom))]
mod window;
mod writers;

#[cfg(not(loom))]
pub use {
    communicator::{Communicator, Source, Status, Tag},
    error::{Error, JoinError},
    join::{environment, is_launched, join, join_named, threads},
    request::{ReceiveRequest, SendRequest},
    sys::elements::Element,
    wait::Waiting,
    window::Window,
};
