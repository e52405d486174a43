//! Tests of the parts of the benchmark `waiting`. Cargo runs no tests of a benchmark that has its
//! own `main`.
#![cfg(not(loom))]
#![allow(dead_code, reason = "the benchmark uses the rest")]
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../../benches/waiting/arms.rs"]
mod arms;
#[path = "../../benches/waiting/cells.rs"]
mod cells;
#[path = "../../benches/waiting/goals.rs"]
mod goals;
#[path = "../../benches/waiting/random.rs"]
mod random;
#[path = "../../benches/waiting/report.rs"]
mod report;
#[path = "../../benches/waiting/runs.rs"]
mod runs;
#[path = "../../benches/waiting/score.rs"]
mod score;
#[path = "../../benches/waiting/sheet.rs"]
mod sheet;

mod parsing;
mod recording;
mod reporting;
mod scoring;
