//! Text, tables, charts and HTML pages for reports.
#![forbid(unsafe_code)]

pub mod html;
pub mod json;
pub mod plot;
pub mod table;
pub mod words;

/// The maximum length of a line of text, unless a single word is longer.
pub const WIDTH: usize = 100;
