//! A progress bar on the terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar on standard error; hidden if that is not a terminal or the user did not ask for
/// it.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows a bar for a sort of `length` bytes. Each byte counts `times` times: once for each time
    /// that it is read from the input or written to the output.
    pub(crate) fn begin(is_wanted: bool, length: Option<u64>, times: u64) -> Progress {
        if !is_wanted || !std::io::stderr().is_terminal() {
            return Progress { bar: ProgressBar::hidden() };
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
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress { bar }
    }

    pub(crate) fn set_phase(&self, what: &'static str) {
        self.bar.set_message(what);
    }

    /// Adds bytes that were read from the input or written to the output.
    pub(crate) fn add(&self, bytes: usize) {
        self.bar.inc(bytes as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
