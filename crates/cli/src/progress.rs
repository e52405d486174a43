//! Progress on a terminal: what is running, how much of it is done, and how long the rest will take.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::runner::Progress;
use report::words;
use scenario::Scenario;

/// A line on standard error, where that is a terminal.
///
/// It is drawn between runs and never during one: what is measured should have the machine to itself.
#[derive(Debug)]
pub(crate) struct Line {
    bar: ProgressBar,
    arms: Vec<String>,
}

/// A bar of so many steps, as far as they are known, on standard error where that is a terminal.
pub(crate) fn bar(steps: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr());
    // The templates are constant and sound; the default style would do as well.
    let style = ProgressStyle::with_template("[{bar:24}] {pos}/{len}, {eta} left: {wide_msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
}

impl Line {
    pub(crate) fn new(scenario: &Scenario) -> Line {
        // The last part of a path will do: the line is short, and the values are what tells arms apart.
        let name = |path: &String| path.rsplit('.').next().unwrap_or_default().to_owned();
        let factors = |arm: &scenario::Arm| {
            let short: Vec<_> = arm.factors.iter().map(|(path, value)| (name(path), value)).collect();
            words::factors(short.iter().map(|(path, value)| (path, *value)))
        };
        Line { bar: bar(None), arms: scenario.arms.iter().map(factors).collect() }
    }

    pub(crate) fn show(&self, progress: Progress<'_>) {
        match progress {
            Progress::Command(argv) => self.bar.set_message(format!("host, `{}` alone", argv.join(" "))),
            Progress::WarmUp => self.bar.set_message("host, warm-up"),
            Progress::Run { step, done, of } => {
                self.bar.set_length(of);
                self.bar.set_position(done);
                let arm = self.arms.get(step.arm).map(String::as_str).filter(|arm| !arm.is_empty());
                self.bar
                    .set_message([Some(step.world.name()), arm].into_iter().flatten().collect::<Vec<_>>().join(", "));
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
