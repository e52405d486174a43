//! Progress on a terminal: what runs, how much is done, and the remaining time.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use measure::runner::Progress;
use report::words;
use scenario::Scenario;

/// A progress bar on standard error, if that is a terminal. Disappears when it is dropped. `steps`
/// is `None` if their number is unknown.
pub(crate) fn bar(steps: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr());
    // The template is a valid constant. The default style would be acceptable, too.
    let style = ProgressStyle::with_template("[{bar:24}] {pos}/{len}, {eta} left: {wide_msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> ")).with_finish(ProgressFinish::AndClear)
}

/// Shows the progress of an experiment.
///
/// The bar is drawn between runs and never during one, because a run should have the machine to
/// itself.
pub(crate) fn of_experiment(scenario: &Scenario) -> impl FnMut(Progress<'_>) + use<> {
    // The last part of a path is enough: the line is short, and the values distinguish the arms.
    let name = |path: &String| path.rsplit('.').next().unwrap_or_default().to_owned();
    let factors = |arm: &scenario::Arm| {
        let short: Vec<_> = arm.factors.iter().map(|(path, value)| (name(path), value)).collect();
        words::factors(short.iter().map(|(path, value)| (path, *value)))
    };
    let arms: Vec<String> = scenario.arms.iter().map(factors).collect();
    let bar = bar(None);
    move |progress| match progress {
        Progress::Command(argv) => bar.set_message(format!("host, `{}` alone", argv.join(" "))),
        Progress::WarmUp => bar.set_message("host, warm-up"),
        Progress::Run { step, done, of } => {
            bar.set_length(of);
            bar.set_position(done);
            let arm = arms.get(step.arm).map(String::as_str).filter(|arm| !arm.is_empty());
            bar.set_message([Some(step.world.name()), arm].into_iter().flatten().collect::<Vec<_>>().join(", "));
        }
    }
}
