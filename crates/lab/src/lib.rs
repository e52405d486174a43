#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod comparison;
pub mod experiment;
pub mod explore;
pub mod factor;
pub mod fg;
pub mod folder;
pub mod manifest;
pub mod measure;
pub mod observations;
pub mod paired;
pub mod paper;
pub mod plan;
pub mod plot;
pub mod precision;
pub mod regress;
pub mod report;
pub mod sample;
pub mod series;
pub mod states;
pub mod statistics;
pub mod summary;
pub mod suspicion;
pub mod table;
pub mod threads;
pub mod timestamp;
pub mod today;
pub mod trace;
pub mod two_worlds;
pub mod verdict;
pub mod words;
mod workers;
pub mod world;
