#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write files as they like"))]
#![forbid(unsafe_code)]

pub mod claim;
pub mod comparison;
pub mod disturbance;
pub mod experiment;
pub mod explore;
pub mod factor;
pub mod folder;
pub mod interleaving;
pub mod manifest;
pub mod observations;
pub mod plan;
pub mod precision;
pub mod recorder;
pub mod regress;
pub mod results;
pub mod runner;
pub mod sample;
pub mod sample_quality;
pub mod series;
pub mod states;
pub mod summary;
pub mod timestamp;
pub mod trace;
pub mod turns;
pub mod two_worlds;
pub mod verdict;
pub mod workers;
pub mod world;
