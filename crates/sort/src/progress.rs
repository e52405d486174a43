//! A progress bar on the terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// A progress bar on standard error for a sort of `length` bytes; hidden if that is not a terminal
/// or the user did not ask for it. Each byte counts `times` times: once for each time that it is
/// read from the input or written to the output. The bar disappears when it is dropped.
pub(crate) fn bar(is_wanted: bool, length: Option<u64>, times: u64) -> ProgressBar {
    if !is_wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length.saturating_mul(times)),
            "{msg:>7} {wide_bar} {percent:>3} %, {binary_bytes_per_sec}, {eta} left",
        ),
        None => (ProgressBar::no_length(), "{msg:>7} {binary_bytes}, {binary_bytes_per_sec}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.with_finish(ProgressFinish::AndClear)
}
