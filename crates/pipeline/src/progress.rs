//! The progress of a run on the terminal.

use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressFinish};
use policy::Span;

use crate::interval::Interval;
use crate::registry::Registry;

/// How often the line changes.
const PERIOD: Span = Span::from_millis(250);

/// A call that has lasted this long is mentioned.
const LONG: Duration = Duration::from_secs(5);

/// A line on the terminal, which disappears when this is dropped. Hidden if there is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    busy: Vec<Span>,
    interval: Interval,
}

impl Progress {
    pub(crate) fn begin(registry: &Registry) -> Progress {
        let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
        bar.set_prefix(registry.run.program.clone());
        Progress { bar, busy: vec![Span::ZERO; registry.stages.len()], interval: Interval::new(PERIOD) }
    }

    /// Updates the line once in each period. `now` is in nanoseconds since the beginning of the
    /// run.
    pub(crate) fn show(&mut self, registry: &Registry, now: u64) {
        let Some(since) = self.interval.next(now).filter(|_| !self.bar.is_hidden()) else { return };
        let observed = registry.observe(now);
        let shares = registry.stages.iter().zip(&observed).zip(&self.busy).map(|((stage, observed), before)| {
            let busy = observed.busy.as_nanos().saturating_sub(before.as_nanos());
            let share = busy * 100 / since.as_nanos() / u64::from(observed.copies.max(1));
            format!("{} {}%", stage.report.name, share.min(100))
        });
        let shares: Vec<String> = shares.collect();
        let (buffers, bytes) = registry.passed();
        let mut line = format!(
            "{}: {buffers} buffers, {} in {}; busy: {}",
            registry.run.program,
            HumanBytes(bytes),
            HumanDuration(Duration::from_nanos(now)),
            shares.join(", ")
        );
        if let Some((stage, time)) = registry.longest_call(now).filter(|&(_, time)| time >= LONG) {
            line.push_str(&format!("; a call of stage '{stage}' has lasted {}", HumanDuration(time)));
        }
        self.bar.set_message(line);
        self.bar.tick();
        self.busy = observed.iter().map(|observed| observed.busy).collect();
    }
}
