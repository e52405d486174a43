//! Figures and tables of papers, run again and judged. docs/papers.md says what each of them shows.
#![forbid(unsafe_code)]

pub mod ap;
pub mod fg;
pub mod figure;
mod registry;
mod scenario_file;
mod text;
pub mod threads;
pub mod today;

pub use registry::{PAPERS, Paper, Study, list};
pub use scenario_file::ScenarioFile;
