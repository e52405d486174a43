//! What limits a program, by doubling: the stages of a kind do their work twice, and the clock tells what that costs.
//!
//! Source: Roysden, Scheduling Pipelined, Multi-Threaded Programs in Linux, Dartmouth TR2004-500, 2004, section 4: if the number of input and
//! output operations is doubled and the clock time doubles, the pipeline is bound by them. What other stages hide costs nothing, twice
//! included. There all operations were doubled in the program's source; here a stage has to know how to do its work once more, and a
//! program whose stages do not cannot be tested.

use std::time::Duration;

use pipeline::structure::Structure;
use policy::priority::StageKind;

use crate::interleaving::shuffle;

use super::{End, Outcome, Runner, Settings};
use stats::paired::Speedup;

/// From this ratio on, taking twice as long is what it is called: a run has a beginning and an end that nothing doubles.
const NEARLY_TWICE: f64 = 1.75;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubling {
    /// For each kind that was doubled.
    pub kinds: Vec<Doubled>,
    /// How it came to its end.
    pub end: End,
}

/// The runs in which one kind of stage did its work twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubled {
    /// Which kind.
    pub kind: StageKind,
    /// Seconds doubled, and as ever.
    pub pairs: Vec<(f64, f64)>,
    /// Why it could not be doubled, or not any more.
    pub why_not: Option<String>,
}

/// What the clock says of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Nearly twice as long: this is what limits the program.
    Wholly,
    /// Longer, but not nearly twice.
    Partly,
    /// No longer, as far as can be told.
    No,
}

impl Bound {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Wholly => "wholly",
            Bound::Partly => "partly",
            Bound::No => "no",
        }
    }
}

impl Doubled {
    /// How many times as long it took.
    pub fn slowdown(&self) -> Option<Speedup> {
        Speedup::of(&self.pairs)
    }

    /// What that says; nothing with fewer than two pairs.
    pub fn bound(&self) -> Option<Bound> {
        let slowdown = self.slowdown()?;
        slowdown.p?;
        let is_longer = slowdown.is_significant() && slowdown.ratio.mean > 1.0;
        Some(match slowdown.ratio.mean {
            _ if !is_longer => Bound::No,
            NEARLY_TWICE.. => Bound::Wholly,
            _ => Bound::Partly,
        })
    }
}

/// The structure in which a kind does its work twice.
pub fn structure(kind: StageKind) -> Structure {
    Structure { double: Some(kind), ..Structure::default() }
}

/// Runs the program as ever and with each of these kinds doubled, by turns, in as many blocks as there are to be pairs.
pub fn double(kinds: &[StageKind], settings: Settings, runner: &mut dyn Runner) -> Doubling {
    let doubled = |&kind: &StageKind| Doubled { kind, pairs: Vec::new(), why_not: None };
    let mut found = Doubling { kinds: kinds.iter().map(doubled).collect(), end: End::Complete };
    if let Err(end) = blocks(&mut found.kinds, settings, runner) {
        found.end = end;
    }
    found
}

fn blocks(kinds: &mut [Doubled], settings: Settings, runner: &mut dyn Runner) -> Result<(), End> {
    let mut longest = Duration::ZERO;
    for number in 0..settings.pairs {
        let mut order: Vec<Option<usize>> =
            (0..kinds.len()).filter(|&kind| kinds[kind].why_not.is_none()).map(Some).chain([None]).collect();
        let began = runner.elapsed();
        if order.len() < 2 {
            return Ok(());
        }
        if settings.limit.is_some_and(|limit| began.saturating_add(longest) > limit) {
            return Err(End::TimeIsUp);
        }
        runner.expect(order.len() as u64 * u64::from(settings.pairs - number));
        shuffle(&mut order, settings.seed, number);
        let (mut own, mut others) = (0.0, Vec::new());
        for kind in order {
            let outcome = runner.run(&kind.map_or_else(Structure::default, |kind| structure(kinds[kind].kind)));
            match (outcome, kind) {
                (Outcome::Stopped, _) => return Err(End::Stopped),
                (Outcome::Failed(why), None) => return Err(End::OwnFailed(why)),
                (Outcome::Failed(why), Some(kind)) => {
                    kinds[kind].why_not = Some(format!("the program failed: {why}"));
                }
                (Outcome::Done { seconds, .. }, None) => own = seconds,
                (Outcome::Done { seconds, .. }, Some(kind)) => others.push((kind, seconds)),
            }
        }
        others.into_iter().for_each(|(kind, seconds)| kinds[kind].pairs.push((seconds, own)));
        longest = longest.max(runner.elapsed().saturating_sub(began));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of one second that takes so many with `io` doubled, and whose `communicate` fails.
    struct Fake {
        doubled: f64,
        runs: u32,
        stop_at: u32,
    }

    impl Runner for Fake {
        fn run(&mut self, structure: &Structure) -> Outcome {
            self.runs += 1;
            if self.runs == self.stop_at {
                return Outcome::Stopped;
            }
            // A little noise, the same each time.
            let noise = f64::from(self.runs % 3) * 0.01;
            let seconds = match structure.double {
                None => 1.0 + noise,
                Some(StageKind::Communicate) => return Outcome::Failed("no again".into()),
                Some(_) => self.doubled + noise,
            };
            Outcome::Done { seconds, output: String::new() }
        }

        fn elapsed(&self) -> Duration {
            Duration::from_secs(u64::from(self.runs))
        }
    }

    const SETTINGS: Settings = Settings { pairs: 6, limit: None, seed: 1 };

    fn doubled(seconds: f64, settings: Settings) -> Doubling {
        double(
            &[StageKind::Io, StageKind::Communicate],
            settings,
            &mut Fake { doubled: seconds, runs: 0, stop_at: u32::MAX },
        )
    }

    #[test]
    fn what_takes_twice_as_long_is_bound_and_what_takes_no_longer_is_not() {
        for (seconds, bound) in [(1.0, Bound::No), (1.3, Bound::Partly), (1.9, Bound::Wholly), (0.8, Bound::No)] {
            let found = doubled(seconds, SETTINGS);
            assert_eq!(found.kinds[0].bound(), Some(bound), "{seconds}: {found:?}");
            assert_eq!((found.kinds[0].pairs.len(), &found.end), (6, &End::Complete));
        }
    }

    #[test]
    fn a_kind_that_fails_is_left_out_and_the_others_go_on() {
        let found = doubled(2.0, SETTINGS);
        assert_eq!(
            found.kinds[1],
            Doubled {
                kind: StageKind::Communicate,
                pairs: vec![],
                why_not: Some("the program failed: no again".into())
            }
        );
        assert_eq!(found.kinds[1].bound(), None);
        let alone = double(&[StageKind::Communicate], SETTINGS, &mut Fake { doubled: 1.0, runs: 0, stop_at: u32::MAX });
        assert_eq!(alone.end, End::Complete);
    }

    #[test]
    fn whoever_stops_it_or_has_no_more_time_gets_what_was_found() {
        let stopped = double(&[StageKind::Io], SETTINGS, &mut Fake { doubled: 2.0, runs: 0, stop_at: 6 });
        assert_eq!((stopped.kinds[0].pairs.len(), stopped.end), (2, End::Stopped));
        let late = doubled(2.0, Settings { limit: Some(Duration::from_secs(9)), ..SETTINGS });
        assert!(late.end == End::TimeIsUp && (1..6).contains(&late.kinds[0].pairs.len()), "{late:?}");
    }
}
