//! Finds what limits a program by doubling: the stages of one kind do their work twice.
//!
//! Source: Roysden, Scheduling Pipelined, Multi-Threaded Programs in Linux, Dartmouth TR2004-500,
//! 2004, section 4: if the number of input and output operations is doubled and the clock time
//! doubles, the pipeline is bound by them. Work that other stages hide costs nothing, even twice.
//! There all operations were doubled in the program's source. Here a stage must be able to repeat
//! its work, and a program without such stages cannot be tested.

use std::time::Duration;

use pipeline::structure::Structure;
use policy::priority::StageKind;
use serde::Serialize;

use crate::interleaving::shuffle;

use super::{ExplorationEnd, ExplorationSettings, ProgramRunner, RunOutcome};
use stats::paired::Speedup;

/// The ratio that counts as twice as long: the beginning and the end of a run are not doubled.
const NEARLY_TWICE: f64 = 1.75;

/// The results.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubling {
    /// One item for each kind of stage that was doubled.
    pub kinds: Vec<DoubledKind>,
    /// How the test ended.
    pub end: ExplorationEnd,
}

/// The runs in which one kind of stage did its work twice.
#[derive(Clone, Debug, PartialEq)]
pub struct DoubledKind {
    /// The kind.
    pub kind: StageKind,
    /// Seconds doubled, and unchanged.
    pub pairs: Vec<(f64, f64)>,
    /// Why it could not be doubled, or not until the end.
    pub why_not: Option<String>,
}

/// Whether a kind limits the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// It takes nearly twice as long: the kind limits the program.
    Wholly,
    /// It takes longer, but not nearly twice as long.
    Partly,
    /// It does not take significantly longer.
    No,
}

impl DoubledKind {
    /// The ratio of the doubled to the unchanged time.
    pub fn slowdown(&self) -> Option<Speedup> {
        Speedup::of(&self.pairs)
    }

    /// Whether the kind limits the program. `None` with fewer than two pairs.
    pub fn bound(&self) -> Option<Bound> {
        let slowdown = self.slowdown().filter(|slowdown| slowdown.p.is_some())?;
        Some(match slowdown.ratio.mean {
            mean if !slowdown.is_significant() || mean <= 1.0 => Bound::No,
            NEARLY_TWICE.. => Bound::Wholly,
            _ => Bound::Partly,
        })
    }
}

/// The structure in which a kind does its work twice.
pub fn structure(kind: StageKind) -> Structure {
    Structure { double: Some(kind), ..Structure::default() }
}

/// Runs the program unchanged and with each of these kinds doubled, in a block for each pair.
pub fn double(kinds: &[StageKind], settings: ExplorationSettings, runner: &mut dyn ProgramRunner) -> Doubling {
    let doubled = |&kind: &StageKind| DoubledKind { kind, pairs: Vec::new(), why_not: None };
    let mut kinds: Vec<DoubledKind> = kinds.iter().map(doubled).collect();
    let end = run_blocks(&mut kinds, settings, runner).err().unwrap_or(ExplorationEnd::Complete);
    Doubling { kinds, end }
}

fn run_blocks(
    kinds: &mut [DoubledKind],
    settings: ExplorationSettings,
    runner: &mut dyn ProgramRunner,
) -> Result<(), ExplorationEnd> {
    let mut longest = Duration::ZERO;
    for number in 0..settings.pairs {
        let mut order: Vec<Option<usize>> =
            (0..kinds.len()).filter(|&kind| kinds[kind].why_not.is_none()).map(Some).chain([None]).collect();
        let began = runner.elapsed();
        if order.len() < 2 {
            return Ok(());
        }
        if settings.limit.is_some_and(|limit| began.saturating_add(longest) > limit) {
            return Err(ExplorationEnd::TimeIsUp);
        }
        runner.expect(order.len() as u64 * u64::from(settings.pairs - number));
        shuffle(&mut order, settings.seed, number);
        let (mut own, mut others) = (0.0, Vec::new());
        for kind in order {
            let outcome = runner.run(&kind.map_or_else(Structure::default, |kind| structure(kinds[kind].kind)));
            match (outcome, kind) {
                (RunOutcome::Stopped, _) => return Err(ExplorationEnd::Stopped),
                (RunOutcome::Failed(why), None) => return Err(ExplorationEnd::OwnFailed(why)),
                (RunOutcome::Failed(why), Some(kind)) => {
                    kinds[kind].why_not = Some(format!("the program failed: {why}"));
                }
                (RunOutcome::Done { seconds, .. }, None) => own = seconds,
                (RunOutcome::Done { seconds, .. }, Some(kind)) => others.push((kind, seconds)),
            }
        }
        others.into_iter().for_each(|(kind, seconds)| kinds[kind].pairs.push((seconds, own)));
        longest = longest.max(runner.elapsed().saturating_sub(began));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeProgram;
    use super::*;

    const SETTINGS: ExplorationSettings = ExplorationSettings { pairs: 6, limit: None, seed: 1 };
    const BOTH: [StageKind; 2] = [StageKind::Io, StageKind::Communicate];

    /// Doubles a program of one second that takes this many with `io` doubled, and fails with
    /// `communicate` doubled.
    fn doubled(kinds: &[StageKind], doubled: f64, settings: ExplorationSettings, stop_after: usize) -> Doubling {
        let outcome = |run: usize, structure: &str| match structure {
            "double=communicate" => RunOutcome::Failed("no again".into()),
            _ => {
                // A little noise, the same each time.
                let seconds = if structure.is_empty() { 1.0 } else { doubled } + (run % 3) as f64 * 0.01;
                RunOutcome::Done { seconds, output: String::new() }
            }
        };
        let mut fake = FakeProgram { run_seconds: Some(1.0), stop_after, ..FakeProgram::new(outcome) };
        double(kinds, settings, &mut fake)
    }

    #[test]
    fn twice_as_long_is_bound_and_no_longer_is_not() {
        for (seconds, bound) in [(1.0, Bound::No), (1.3, Bound::Partly), (1.9, Bound::Wholly), (0.8, Bound::No)] {
            let found = doubled(&BOTH, seconds, SETTINGS, usize::MAX);
            assert_eq!(found.kinds[0].bound(), Some(bound), "{seconds}: {found:?}");
            assert_eq!((found.kinds[0].pairs.len(), &found.end), (6, &ExplorationEnd::Complete));
        }
    }

    #[test]
    fn a_kind_that_fails_is_left_out_and_the_others_continue() {
        let failed = &doubled(&BOTH, 2.0, SETTINGS, usize::MAX).kinds[1];
        let why_not = Some("the program failed: no again".into());
        assert_eq!(*failed, DoubledKind { kind: StageKind::Communicate, pairs: vec![], why_not });
        assert_eq!(failed.bound(), None);
        let alone = doubled(&BOTH[1..], 1.0, SETTINGS, usize::MAX);
        assert_eq!(alone.end, ExplorationEnd::Complete);
    }

    #[test]
    fn a_stop_or_the_time_limit_keeps_the_pairs_so_far() {
        let stopped = doubled(&BOTH[..1], 2.0, SETTINGS, 5);
        assert_eq!((stopped.kinds[0].pairs.len(), stopped.end), (2, ExplorationEnd::Stopped));
        let limit = Some(Duration::from_secs(9));
        let late = doubled(&BOTH, 2.0, ExplorationSettings { limit, ..SETTINGS }, usize::MAX);
        assert!(late.end == ExplorationEnd::TimeIsUp && (1..6).contains(&late.kinds[0].pairs.len()), "{late:?}");
    }
}
