//! How far a run is, on the terminal of whoever waits for it.

use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration, ProgressBar};
use policy::Span;

use crate::registry::Registry;

/// How often the line changes.
const PERIOD: Duration = Duration::from_millis(250);

/// A call that has lasted for so long is worth a word.
const LONG: Duration = Duration::from_secs(5);

/// One line on the terminal, which goes away when it is dropped; nothing where there is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    busy: Vec<Span>,
    /// When the line last changed, in nanoseconds since the beginning of the run.
    at: u64,
}

impl Progress {
    pub(crate) fn begin(registry: &Registry) -> Progress {
        let bar = ProgressBar::new_spinner();
        bar.set_prefix(registry.program.clone());
        Progress { bar, busy: vec![Span::ZERO; registry.stages.len()], at: 0 }
    }

    /// Shows how it is, if it is time to at `now`, in nanoseconds since the beginning of the run.
    pub(crate) fn show(&mut self, registry: &Registry, now: u64) {
        if self.bar.is_hidden() || !is_due(self.at, now) {
            return;
        }
        let observed = registry.observe(now);
        let since = now.saturating_sub(self.at).max(1);
        let shares = registry.stages.iter().zip(&observed).zip(&self.busy).map(|((stage, observed), before)| {
            let busy = observed.busy.as_nanos().saturating_sub(before.as_nanos());
            let share = busy * 100 / since / u64::from(observed.copies.max(1));
            format!("{} {}%", stage.name, share.min(100))
        });
        let shares: Vec<String> = shares.collect();
        let (buffers, bytes) = registry.passed();
        let mut line = format!(
            "{}: {buffers} buffers, {} in {}; busy: {}",
            registry.program,
            HumanBytes(bytes),
            HumanDuration(Duration::from_nanos(now)),
            shares.join(", ")
        );
        if let Some((stage, time)) = registry.longest_call(now).filter(|&(_, time)| time >= LONG) {
            line.push_str(&format!("; stage '{stage}' has had its buffer for {}", HumanDuration(time)));
        }
        self.bar.set_message(line);
        self.bar.tick();
        (self.busy, self.at) = (observed.iter().map(|observed| observed.busy).collect(), now);
    }
}

/// Whether the line that changed at one time is to change at another, both in nanoseconds.
fn is_due(at: u64, now: u64) -> bool {
    Duration::from_nanos(now.saturating_sub(at)) >= PERIOD
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_changes_once_in_each_period() {
        let period = PERIOD.as_nanos() as u64;
        assert!(!is_due(0, period - 1) && is_due(0, period));
        assert!(!is_due(period, 2 * period - 1) && is_due(period, 2 * period));
        assert!(!is_due(period, 0));
    }
}
