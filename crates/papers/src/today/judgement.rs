//! The judgement of a cell: its best fixed rule, and how close the other rules come to it.
//!
//! Rules are compared in expectation: by the mean time over the repetitions, of the geometric mean
//! of the measured teams. In most cells the repetitions hardly differ. In a *bistable* one the runs
//! of a rule fall into two separate states, because its first rounds decide for the whole run who
//! shares a CPU; then the mean weighs the states by their shares.

use policy::waiting::WaitingRule;
use serde::Serialize;
use stats::Estimate;

use super::cell::Cell;
use super::runs::{FIXED, OF_COPY, Plan, Run, Runs};

/// A rule is close to the best if it has at least this share of its speed.
pub const CLOSE: f64 = 0.9;
/// Fixed rules that have at least this share of the speed of the best may be the best after more
/// repetitions.
const RIVAL: f64 = 0.8;
/// The states of a bistable cell differ by at least this factor.
const STATES_DIFFER: f64 = 1.3;

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A rule.
    Rule(WaitingRule),
    /// The best fixed rule, with other seeds: what a rule is worth that is equal to the best.
    Copy,
}

/// The ratio of the speeds of a rule and of the best fixed rule in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Closeness {
    /// By the geometric mean of the teams.
    pub speed: Estimate,
    /// By the slowest team, compared with the slowest of the best rule.
    pub worst_team: f64,
}

/// The states of a bistable rule in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct States {
    /// The share of the runs in the faster state.
    pub fast_share: f64,
    /// The mean time of the faster runs, in seconds.
    pub fast_seconds: f64,
    /// The mean time of the slower ones.
    pub slow_seconds: f64,
}

/// Judges one cell.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    plan: &'a Plan,
    cell: &'a Cell,
    runs: &'a Runs,
}

impl<'a> Judge<'a> {
    /// The judge of a cell by these runs.
    pub fn new(plan: &'a Plan, cell: &'a Cell, runs: &'a Runs) -> Judge<'a> {
        Judge { plan, cell, runs }
    }

    /// All subjects.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> + use<'a> {
        self.plan.rules.iter().map(|rule| Subject::Rule(*rule)).chain([Subject::Copy])
    }

    /// The runs that the judgement needs, as far as that is known: rules and repetitions.
    pub fn wanted(&self) -> Vec<(WaitingRule, u32)> {
        let Plan { repeat, repeat_undecided: more, .. } = *self.plan;
        let all = FIXED.iter().chain(&self.plan.rules);
        let mut wanted: Vec<_> = (0..repeat).flat_map(|number| all.clone().map(move |rule| (*rule, number))).collect();
        for subject in self.subjects() {
            let Some(best) = self.best(repeat) else { break };
            wanted.extend((OF_COPY..OF_COPY + repeat).map(|number| (best, number)));
            if !self.is_undecided(subject) {
                continue;
            }
            wanted.extend(self.rivals().flat_map(|rule| (0..more).map(move |number| (rule, number))));
            match (subject, self.best(more)) {
                (Subject::Rule(rule), _) => wanted.extend((0..more).map(|number| (rule, number))),
                (Subject::Copy, Some(best)) => wanted.extend((OF_COPY..OF_COPY + more).map(|number| (best, number))),
                (Subject::Copy, None) => {}
            }
        }
        wanted
    }

    /// The best fixed rule by this many repetitions. `None` if runs are missing.
    pub fn best(&self, repeat: u32) -> Option<WaitingRule> {
        let rules: Vec<WaitingRule> = if repeat > self.plan.repeat { self.rivals().collect() } else { FIXED.to_vec() };
        let seconds = |rule| Some((rule, mean(&self.runs.of(self.cell, rule, 0, repeat)?, |run| run.seconds)));
        let all: Option<Vec<(WaitingRule, f64)>> = rules.into_iter().map(seconds).collect();
        all?.into_iter().min_by(|one, other| one.1.total_cmp(&other.1)).map(|(rule, _)| rule)
    }

    /// The fixed rules that may be the best. Empty if runs are missing.
    fn rivals(&self) -> impl Iterator<Item = WaitingRule> + use<'a> {
        let repeat = self.plan.repeat;
        let best = self.best(repeat).and_then(|best| self.seconds(best, repeat));
        let Judge { cell, runs, .. } = *self;
        FIXED.into_iter().filter(move |rule| {
            let own = runs.of(cell, *rule, 0, repeat).map(|runs| mean(&runs, |run| run.seconds));
            best.zip(own).is_some_and(|(best, own)| best >= RIVAL * own)
        })
    }

    /// The expected time of a rule by its first repetitions, in seconds.
    pub fn seconds(&self, rule: WaitingRule, repeat: u32) -> Option<f64> {
        Some(mean(&self.runs.of(self.cell, rule, 0, repeat)?, |run| run.seconds))
    }

    /// Whether one of the first repetitions of a rule was cut off. `None` if runs are missing.
    pub fn is_cut_off(&self, rule: WaitingRule, repeat: u32) -> Option<bool> {
        Some(self.runs.of(self.cell, rule, 0, repeat)?.iter().any(|run| run.is_cut_off))
    }

    /// How close a subject comes to the best fixed rule: by more repetitions if the first ones do
    /// not decide. Also returns the number of repetitions. `None` if runs are missing.
    pub fn closeness(&self, subject: Subject) -> Option<(Closeness, u32)> {
        let Plan { repeat, repeat_undecided: more, .. } = *self.plan;
        let first = self.judge(subject, repeat)?;
        let second = self.is_undecided(subject).then(|| self.judge(subject, more)).flatten();
        Some(second.map_or((first, repeat), |second| (second, more)))
    }

    /// Whether the first repetitions do not decide: others could put the subject on the other side
    /// of [`CLOSE`], or are so different that the best rule is not close to its own copy.
    fn is_undecided(&self, subject: Subject) -> bool {
        let speed = |subject| self.judge(subject, self.plan.repeat).map(|closeness| closeness.speed);
        let is_far = |copy: Estimate| copy.mean.max(1.0 / copy.mean) > 1.0 / CLOSE;
        speed(subject).is_some_and(|speed| speed.contains(CLOSE)) || speed(Subject::Copy).is_some_and(is_far)
    }

    fn judge(&self, subject: Subject, repeat: u32) -> Option<Closeness> {
        let best = self.best(repeat)?;
        let of_best = self.runs.of(self.cell, best, 0, repeat)?;
        let own = match subject {
            Subject::Rule(rule) => self.runs.of(self.cell, rule, 0, repeat)?,
            Subject::Copy => self.runs.of(self.cell, best, OF_COPY, repeat)?,
        };
        Some(Closeness {
            speed: ratio_of_means(&of_best, &own)?,
            worst_team: mean(&of_best, |run| run.worst_seconds) / mean(&own, |run| run.worst_seconds),
        })
    }

    /// The states of a rule, by all its runs. `None` if they are in one state, or too few to tell.
    pub fn states(&self, rule: WaitingRule) -> Option<States> {
        let more = self.plan.repeat_undecided;
        let runs = |from| self.runs.of(self.cell, rule, from, more);
        let all = [runs(0), runs(OF_COPY)].into_iter().flatten().flatten();
        states(all.map(|run| run.seconds).collect())
    }
}

fn mean(runs: &[&Run], of: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(|run| of(run)).sum::<f64>() / runs.len() as f64
}

/// The ratio of two mean times, pair by pair of repetitions, with its interval (by the delta
/// method).
fn ratio_of_means(best: &[&Run], own: &[&Run]) -> Option<Estimate> {
    let of_own = mean(own, |run| run.seconds);
    let ratio = mean(best, |run| run.seconds) / of_own;
    let deviation = |(best, own): (&&Run, &&Run)| (best.seconds - ratio * own.seconds) / of_own;
    let deviations: Vec<f64> = best.iter().zip(own).map(deviation).collect();
    let estimate = stats::mean(&deviations)?;
    Some(Estimate { mean: 0.0, ..estimate }.map(|deviation| ratio + deviation))
}

/// Two states: a gap between the sorted times that is a large factor, that is wider than all of the
/// rest, and that has at least two runs on each side.
fn states(mut seconds: Vec<f64>) -> Option<States> {
    seconds.sort_unstable_by(f64::total_cmp);
    let (first, last) = (*seconds.first()?, *seconds.last()?);
    let gap = |at: &usize| seconds[*at] / seconds[at - 1];
    let at = (2..seconds.len().saturating_sub(1)).max_by(|one, other| gap(one).total_cmp(&gap(other)))?;
    let is_clear = gap(&at) >= STATES_DIFFER && gap(&at).powi(2) >= last / first;
    let (fast, slow) = seconds.split_at(at);
    is_clear.then_some(States {
        fast_share: fast.len() as f64 / seconds.len() as f64,
        fast_seconds: stats::average(fast)?,
        slow_seconds: stats::average(slow)?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::today::grid::Grid;

    /// A plan of the first cell.
    pub(in crate::today) fn plan() -> Plan {
        let cells = Grid::First.cells().into_iter().take(1).collect();
        Plan { cells, rules: vec![WaitingRule::Adaptive], repeat: 3, repeat_undecided: 10, seed: 1 }
    }

    fn runs(cell: &Cell, times: &[(WaitingRule, u32, &[f64])]) -> Runs {
        let of_rule = |&(rule, from, seconds): &(WaitingRule, u32, &[f64])| {
            let run = |(repeat, &seconds): (u32, &f64)| Run {
                grid: cell.grid,
                cell: cell.number,
                rule: rule.to_string(),
                repeat,
                seconds,
                worst_seconds: 2.0 * seconds,
                is_cut_off: false,
                events: 1,
                others_percent: None,
            };
            (from..).zip(seconds).map(run).collect::<Vec<_>>()
        };
        times.iter().flat_map(of_rule).collect()
    }

    const CLEAR: [(WaitingRule, u32, &[f64]); 6] = [
        (FIXED[0], 0, &[1.0, 1.1, 0.9]),
        (FIXED[1], 0, &[2.0, 2.0, 2.0]),
        (FIXED[2], 0, &[9.0, 9.0, 9.0]),
        (FIXED[3], 0, &[1.2, 1.2, 1.2]),
        (FIXED[4], 0, &[9.0, 9.0, 9.0]),
        (WaitingRule::Adaptive, 0, &[2.0, 2.2, 1.8]),
    ];

    /// A cell in which `always-block` is best and `adaptive` takes twice as long.
    pub(in crate::today) fn clear(cell: &Cell) -> Runs {
        runs(cell, &with(&[(FIXED[0], OF_COPY, &[1.0, 1.1, 0.9])]))
    }

    fn with(times: &[(WaitingRule, u32, &'static [f64])]) -> Vec<(WaitingRule, u32, &'static [f64])> {
        [&CLEAR[..], times].concat()
    }

    #[test]
    fn a_rule_is_compared_with_the_best_fixed_one_repetition_by_repetition() {
        let plan = plan();
        let copy: (WaitingRule, u32, &[f64]) = (FIXED[0], OF_COPY, &[1.0, 1.0, 1.0]);
        let runs = runs(&plan.cells[0], &with(&[copy]));
        let judge = Judge::new(&plan, &plan.cells[0], &runs);
        assert_eq!(judge.best(3), Some(FIXED[0]));
        let (closeness, repeat) = judge.closeness(Subject::Rule(WaitingRule::Adaptive)).unwrap();
        assert_eq!((closeness.speed.mean, closeness.worst_team, repeat), (0.5, 0.5, 3));
        // All pairs have the same ratio.
        let (low, high) = closeness.speed.interval.unwrap();
        assert!(high - low < 1e-9, "{closeness:?}");
        assert_eq!(judge.closeness(Subject::Copy).unwrap().0.speed.mean, 1.0);
    }

    #[test]
    fn missing_are_all_rules_then_the_copy_of_the_best_then_rivals_of_an_undecided_cell_and_then_more_of_its_copy() {
        let plan = plan();
        let cell = &plan.cells[0];
        let missing = |times: &[(WaitingRule, u32, &[f64])]| plan.missing(&runs(cell, times)).len();
        assert_eq!(missing(&[]), 18);
        assert_eq!(missing(&CLEAR), 3);
        assert_eq!(missing(&with(&[(FIXED[0], OF_COPY, &[1.0, 1.1, 0.9])])), 0);
        // The copy may have 0.9 of the speed: seven more runs of the best and of the one that is
        // not much slower. They decide whose copy has more.
        let undecided = with(&[(FIXED[0], OF_COPY, &[1.3, 0.9, 1.1])]);
        assert_eq!(missing(&undecided), 14);
        // If the copy is far from the best, `adaptive` has more, too.
        assert_eq!(missing(&with(&[(FIXED[0], OF_COPY, &[2.0; 3])])), 21);
        let rivals: [(WaitingRule, u32, &[f64]); 2] = [(FIXED[0], 3, &[1.0; 7]), (FIXED[3], 3, &[1.2; 7])];
        assert_eq!(missing(&[&undecided[..], &rivals].concat()), 7);
    }

    #[test]
    fn two_states_are_told_from_one() {
        let two = states(vec![1.0, 3.0, 1.1, 1.05, 3.1, 1.0]).unwrap();
        assert!((two.fast_share - 2.0 / 3.0).abs() < 1e-9 && two.slow_seconds == 3.05, "{two:?}");
        // A single run is no state, nor is half of a spread.
        assert_eq!(states(vec![1.0, 1.0, 1.1, 1.05, 1.0, 3.0]), None);
        assert_eq!(states(vec![1.0, 1.3, 1.8, 2.4, 3.2, 4.4]), None);
        assert_eq!(states(vec![1.0]), None);
    }
}
