#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
#![forbid(unsafe_code)]

pub mod placement;
pub mod processes;
pub mod ranks;
pub mod topology;
