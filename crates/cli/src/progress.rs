//! Progress on a terminal: what runs, how much is done, and the remaining time.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::runner::Progress;
use report::words;
use scenario::Scenario;

/// A progress line on standard error, if that is a terminal.
///
/// It is drawn between runs and never during one, because a run should have the machine to itself.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    arms: Vec<String>,
}

/// A progress bar on standard error, if that is a terminal. `steps` is `None` if their number is
/// unknown.
pub(crate) fn bar(steps: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr());
    // The template is a valid constant. The default style would be acceptable, too.
    let style = ProgressStyle::with_template("[{bar:24}] {pos}/{len}, {eta} left: {wide_msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
}

impl ProgressLine {
    pub(crate) fn new(scenario: &Scenario) -> ProgressLine {
        // The last part of a path is enough: the line is short, and the values distinguish the
        // arms.
        let name = |path: &String| path.rsplit('.').next().unwrap_or_default().to_owned();
        let factors = |arm: &scenario::Arm| {
            let short: Vec<_> = arm.factors.iter().map(|(path, value)| (name(path), value)).collect();
            words::factors(short.iter().map(|(path, value)| (path, *value)))
        };
        ProgressLine { bar: bar(None), arms: scenario.arms.iter().map(factors).collect() }
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

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
