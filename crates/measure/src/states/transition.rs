//! The transition point: the moment from which the threads of a job run together, and stay together.
//!
//! Rounds are taken by windows. A run has a transition point if after a window whose spins did not nearly all succeed
//! there are several in a row whose spins did: over several epochs of the scheduler, so that one lucky epoch does not count.
//! The point is the beginning of the first of these. A run that is good from its first window on has none.

use policy::{Instant, Span};
use serde::Serialize;

use super::rounds::Rounds;

/// So many rounds are a window.
const WINDOW: usize = 100;
/// So many windows in a row must be good.
const LASTING: usize = 5;
/// In a good window at least so many spins in a hundred succeed.
const GOOD: f64 = 90.0;

/// Where a run has its transition point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Transition {
    /// How many rounds came before it.
    pub round: u64,
    /// When it was, since the start of the run.
    pub at_ns: Span,
    /// SSR before it.
    pub before_percent: f64,
    /// SSR from it on.
    pub after_percent: f64,
}

/// The transition point of these rounds. Whoever passed one awake and was not the last has spun with success.
pub fn find(rounds: &Rounds) -> Option<Transition> {
    in_windows(&windows(rounds))
}

fn windows(rounds: &Rounds) -> Vec<Window> {
    let of = |first: usize| {
        let begin = if first == 0 { Instant::ZERO } else { rounds.at(first - 1) };
        let successful = (first..first + WINDOW).map(|round| rounds.awake(round) as u64 - 1).sum();
        Window { begin: begin.since(Instant::ZERO), spins: (WINDOW * (rounds.threads() - 1)) as u64, successful }
    };
    (0..rounds.len() / WINDOW).map(|window| of(window * WINDOW)).collect()
}

/// What happened in some rounds of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Window {
    begin: Span,
    spins: u64,
    successful: u64,
}

impl Window {
    fn ssr(&self) -> Option<f64> {
        (self.spins > 0).then(|| 100.0 * self.successful as f64 / self.spins as f64)
    }

    fn is_good(&self) -> bool {
        self.ssr().is_some_and(|ssr| ssr >= GOOD)
    }

    fn sum(windows: &[Window]) -> Window {
        let add = |sum: Window, window: &Window| Window {
            begin: sum.begin,
            spins: sum.spins + window.spins,
            successful: sum.successful + window.successful,
        };
        windows.iter().fold(Window::default(), add)
    }
}

fn in_windows(windows: &[Window]) -> Option<Transition> {
    let first = windows.windows(LASTING).position(|lasting| lasting.iter().all(Window::is_good))?;
    let (before, after) = windows.split_at(first);
    // Good from the first window on: nothing has changed.
    let before_percent = Window::sum(before).ssr()?;
    let after_percent = Window::sum(after).ssr()?;
    Some(Transition { round: (first * WINDOW) as u64, at_ns: after.first()?.begin, before_percent, after_percent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::rounds::RoundRecorder;

    fn windows(ssr: &[u64]) -> Vec<Window> {
        let window =
            |(number, &successful): (u64, &u64)| Window { begin: Span::from_micros(number), spins: 100, successful };
        (0..).zip(ssr).map(window).collect()
    }

    #[test]
    fn the_transition_point_is_where_spins_begin_to_succeed_for_long() {
        // The first good window is alone, and does not count.
        let found = in_windows(&windows(&[50, 95, 50, 45, 91, 99, 99, 98, 100, 60])).unwrap();
        assert_eq!((found.round, found.at_ns), (400, Span::from_micros(4)));
        assert_eq!((found.before_percent, found.after_percent), (60.0, 547.0 / 6.0));
    }

    #[test]
    fn there_is_none_where_nothing_changes_or_nothing_lasts() {
        assert_eq!(in_windows(&windows(&[50; 20])), None);
        assert_eq!(in_windows(&windows(&[99; 20])), None);
        assert_eq!(in_windows(&windows(&[50, 99, 99, 99, 99])), None);
        assert_eq!(in_windows(&[]), None);
    }

    #[test]
    fn a_run_is_counted_to_the_same_ssr_as_the_simulator_counts() {
        let text = r#"
            machine = { cpus = 4, scheduler = "rr" }
            job = [
                { name = "crowd", kind = "cpu", threads = 3, copies = 2 },
                { name = "crew", kind = "barrier", threads = 3, granularity = "fine", rounds = 1000, waiting = "cs" },
            ]
        "#;
        let scenario = scenario::read("crew.toml", text.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
        let (machine, setting) = (scenario::Machine::with_cpus(4), &scenario.arms[0].setting);
        let mut meetings = RoundRecorder::of(setting, machine.cpus, "crew").unwrap();
        let outcome = sim::run_observed(&machine, setting, 1, &mut meetings).unwrap();
        let windows = super::windows(&meetings.into_rounds());
        assert_eq!(windows.len(), 10);
        let counted = Window::sum(&windows).ssr();
        assert_eq!(counted, outcome.jobs[2].ssr_percent);
        assert!(counted.is_some_and(|ssr| ssr > 1.0 && ssr < 99.0), "{counted:?}");
    }
}
