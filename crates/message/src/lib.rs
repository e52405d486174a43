//! messages
#![allow(dead_code)]
#![cfg_attr(loom, allow(dead_code, reason = "what uses it is not modelled"))]

mod bell;
mod record;
mod ring;
mod sync;
