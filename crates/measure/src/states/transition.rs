//! The transition point: the moment from which the threads of a job run together.
//!
//! Rounds are divided into windows. A window is good if nearly all of its spins succeed. A run has
//! a transition point if several good windows in a row follow a window that is not good. They must
//! span several epochs of the scheduler, so that one good epoch does not count. The point
//! is the beginning of the first of them. A run that is good from its first window on has none.

use policy::{Instant, Span};
use serde::Serialize;

use super::rounds::Rounds;

/// The number of rounds in a window.
const WINDOW: usize = 100;
/// The number of consecutive windows that must be good.
const LASTING: usize = 5;
/// The percentage of successful spins from which a window is good.
const GOOD: f64 = 90.0;

/// The transition point of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Transition {
    /// The number of rounds before it.
    pub round: u64,
    /// When it was, since the start of the run.
    pub at_ns: Span,
    /// SSR before it.
    pub before_percent: f64,
    /// SSR from it on.
    pub after_percent: f64,
}

/// Finds the transition point. Each thread that passed a round awake, except the last to arrive,
/// had a successful spin.
pub fn find(rounds: &Rounds) -> Option<Transition> {
    in_windows(&windows(rounds))
}

fn windows(rounds: &Rounds) -> Vec<Window> {
    let of = |first: usize| {
        let begin = if first == 0 { Instant::ZERO } else { rounds.at[first - 1] };
        let successful = (first..first + WINDOW).map(|round| rounds.awake(round) as u64 - 1).sum();
        Window { begin: begin.since(Instant::ZERO), spins: (WINDOW * (rounds.threads - 1)) as u64, successful }
    };
    (0..rounds.at.len() / WINDOW).map(|window| of(window * WINDOW)).collect()
}

/// The spins in some rounds of a job.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Span,
    spins: u64,
    successful: u64,
}

/// SSR in these windows. `None` if there are no spins.
fn ssr(windows: &[Window]) -> Option<f64> {
    let sum = |of: fn(&Window) -> u64| windows.iter().map(of).sum::<u64>() as f64;
    let spins = sum(|window| window.spins);
    (spins > 0.0).then(|| 100.0 * sum(|window| window.successful) / spins)
}

fn in_windows(windows: &[Window]) -> Option<Transition> {
    let is_good = |window: &[Window]| ssr(window).is_some_and(|ssr| ssr >= GOOD);
    let first = windows.windows(LASTING).position(|lasting| lasting.chunks(1).all(is_good))?;
    let (before, after) = windows.split_at(first);
    // Good from the first window on: nothing has changed.
    let before_percent = ssr(before)?;
    let after_percent = ssr(after)?;
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
    fn the_transition_point_is_the_first_of_several_consecutive_good_windows() {
        // The first good window is alone and does not count.
        let found = in_windows(&windows(&[50, 95, 50, 45, 91, 99, 99, 98, 100, 60])).unwrap();
        assert_eq!((found.round, found.at_ns), (400, Span::from_micros(4)));
        assert_eq!((found.before_percent, found.after_percent), (60.0, 547.0 / 6.0));
    }

    #[test]
    fn there_is_no_transition_point_if_nothing_changes_or_the_change_does_not_last() {
        assert_eq!(in_windows(&windows(&[50; 20])), None);
        assert_eq!(in_windows(&windows(&[99; 20])), None);
        assert_eq!(in_windows(&windows(&[50, 99, 99, 99, 99])), None);
        assert_eq!(in_windows(&[]), None);
    }

    #[test]
    fn the_ssr_of_the_windows_is_that_of_the_simulator() {
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
        let windows = super::windows(&meetings.rounds);
        assert_eq!(windows.len(), 10);
        let counted = ssr(&windows);
        assert_eq!(counted, outcome.jobs[2].ssr_percent);
        assert!(counted.is_some_and(|ssr| ssr > 1.0 && ssr < 99.0), "{counted:?}");
    }
}
