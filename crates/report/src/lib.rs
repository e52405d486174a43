//! Text, tables, charts and pages, made of what a study hands over. This crate knows no study.
#![forbid(unsafe_code)]

pub mod html;
pub mod json;
pub mod plot;
pub mod table;
pub mod words;

/// No line of a text is longer, except for a single word that is.
pub const WIDTH: usize = 100;
