//! Figures and tables of papers, run again and judged: [`barrier`], its question asked of later
//! kernels ([`today`]), [`fg`] and [`threads`]. docs/papers.md says what each of them shows.
#![forbid(unsafe_code)]

pub mod barrier;
pub mod fg;
pub mod threads;
pub mod today;
