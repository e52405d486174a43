//! The conclusions from the runs of a grid: for each kernel, how close each rule comes to the best
//! fixed rule of each cell.

use policy::waiting::WaitingRule;
use serde::Serialize;
use stats::six_digits;

use super::cell::Cell;
use super::grid::{Grid, SCHEDULERS};
use super::judgement::{CLOSE, Closeness, Judge, States, Subject};
use super::on_host::Measured;
use super::runs::{FIXED, Plan, Runs};
use super::speed_ups::{self, SpeedUps};
use crate::Paper;

/// The name of the copy of the best fixed rule, in the place of a rule.
pub const COPY: &str = "copy of the best";
/// The name of all kernels together, in the place of a scheduler.
pub const ALL: &str = "all";
/// The number of cells that are named for each rule.
const WORST: usize = 10;

/// The conclusions from all grids.
#[derive(Clone, Debug, Serialize)]
pub struct GridReport<'a> {
    /// The paper.
    #[serde(flatten)]
    pub paper: &'a Paper,
    /// Whether all planned runs were made.
    pub complete: bool,
    /// The number of runs.
    pub runs: usize,
    /// The number of planned runs, as far as it is known: undecided cells have more.
    pub planned_runs: u64,
    /// The machine of a measurement. `None` if everything was simulated.
    pub host: Option<Measured>,
    /// The grids.
    pub grids: Vec<Conclusions>,
}

/// The conclusions from one grid.
#[derive(Clone, Debug, Serialize)]
pub struct Conclusions {
    /// The grid.
    pub grid: Grid,
    /// The number of its cells that lack runs.
    pub incomplete: usize,
    /// The rules: the fixed ones, and then the others.
    pub rules: Vec<String>,
    /// For each rule and kernel, how close the rule comes to the best.
    pub summaries: Vec<Summary>,
    /// How often each fixed rule is the best.
    pub best: Vec<Share>,
    /// How often a run of each rule was cut off, so that its time is an extrapolation.
    pub cut_off: Vec<Share>,
    /// The speed-ups of all rules over immediate blocking.
    pub speed_ups: Vec<SpeedUps>,
    /// The cells in which all fixed rules have runs.
    pub cells: Vec<Judged>,
}

/// How close a rule comes to the best fixed rules, under one kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The rule, or [`COPY`].
    pub rule: String,
    /// The kernel's scheduler, or [`ALL`].
    pub scheduler: String,
    /// The number of cells.
    pub cells: usize,
    /// The percentage of cells with at least [`CLOSE`] of the speed of the best.
    pub close_percent: f64,
    /// The geometric mean of the ratios of the speeds.
    pub mean: f64,
    /// The smallest ratio.
    pub worst: f64,
    /// The geometric mean in cells with several teams. `None` if there are none.
    pub teams_mean: Option<f64>,
    /// The same of the slowest teams.
    pub worst_team_mean: Option<f64>,
}

/// How often something happens to a rule under a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The rule.
    pub rule: String,
    /// The percentage of cells in which it happens.
    pub percent: f64,
}

/// A cell and its judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// Its load.
    pub load: f64,
    /// The best fixed rule by the first repetitions.
    pub best: String,
    /// The times of all rules by the first repetitions.
    pub times: Vec<RuleTime>,
    /// The rules, with how close they come to the best, and [`COPY`].
    pub rules: Vec<JudgedRule>,
    /// The bistable rules.
    pub bistable: Vec<BistableRule>,
}

/// The time of a rule in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleTime {
    /// The rule.
    pub rule: String,
    /// The mean time, in seconds.
    pub seconds: f64,
    /// Whether a run was cut off, so that its time is an extrapolation.
    pub is_cut_off: bool,
}

/// A rule whose runs in a cell are in one of two states.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BistableRule {
    /// The rule.
    pub rule: String,
    /// The states.
    #[serde(flatten)]
    pub states: States,
}

/// How close a rule comes to the best fixed rule of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedRule {
    /// The rule.
    pub rule: String,
    /// The best fixed rule.
    pub best: String,
    /// The number of repetitions.
    pub repeat: u32,
    /// The ratios of the speeds.
    #[serde(flatten)]
    pub closeness: Closeness,
}

impl Conclusions {
    /// The conclusions from the runs of a plan, whose cells are of one grid.
    pub fn new(grid: Grid, plan: &Plan, runs: &Runs) -> Conclusions {
        let cells: Vec<Judged> = plan.cells.iter().filter_map(|cell| Judged::new(plan, cell, runs)).collect();
        let subjects = plan.rules.len() + 1;
        let complete = cells.iter().filter(|cell| cell.rules.len() == subjects).count();
        let rules: Vec<String> = FIXED.iter().chain(&plan.rules).map(WaitingRule::to_string).collect();
        Conclusions {
            grid,
            incomplete: plan.cells.len() - complete,
            summaries: summaries(plan, &cells),
            best: shares(&FIXED.map(|rule| rule.to_string()), &cells, |cell, rule| cell.best == rule),
            cut_off: shares(&rules, &cells, Judged::is_cut_off),
            speed_ups: speed_ups::speed_ups(&rules, &cells),
            rules,
            cells,
        }
    }

    /// The cells in which a rule is furthest from the best, the worst one first.
    pub fn worst(&self, rule: &str) -> Vec<(&Judged, &JudgedRule)> {
        let mut of_rule: Vec<_> = self.cells.iter().filter_map(|cell| Some((cell, cell.rule(rule)?))).collect();
        of_rule.sort_by(|(_, one), (_, other)| one.closeness.speed.mean.total_cmp(&other.closeness.speed.mean));
        of_rule.retain(|(_, rule)| rule.closeness.speed.mean < CLOSE);
        of_rule.truncate(WORST);
        of_rule
    }
}

impl Judged {
    fn new(plan: &Plan, cell: &Cell, runs: &Runs) -> Option<Judged> {
        let judge = Judge::new(plan, cell, runs);
        let rule = |subject| {
            let (closeness, repeat) = judge.closeness(subject)?;
            let rule = match subject {
                Subject::Rule(rule) => rule.to_string(),
                Subject::Copy => COPY.to_owned(),
            };
            Some(JudgedRule { rule, best: judge.best(repeat)?.to_string(), repeat, closeness })
        };
        let all: Vec<WaitingRule> = FIXED.iter().chain(&plan.rules).copied().collect();
        let time = |rule: &WaitingRule| {
            let seconds = six_digits(judge.seconds(*rule, plan.repeat)?);
            Some(RuleTime { rule: rule.to_string(), seconds, is_cut_off: judge.is_cut_off(*rule, plan.repeat)? })
        };
        let bistable = |rule: &WaitingRule| Some(BistableRule { rule: rule.to_string(), states: judge.states(*rule)? });
        Some(Judged {
            cell: cell.clone(),
            load: six_digits(cell.load()),
            best: judge.best(plan.repeat)?.to_string(),
            times: all.iter().filter_map(time).collect(),
            rules: judge.subjects().filter_map(rule).collect(),
            bistable: all.iter().filter_map(bistable).collect(),
        })
    }

    fn time(&self, rule: &str) -> Option<&RuleTime> {
        self.times.iter().find(|time| time.rule == rule)
    }

    /// The mean time of a rule by the first repetitions, in seconds.
    pub fn seconds(&self, rule: &str) -> Option<f64> {
        self.time(rule).map(|time| time.seconds)
    }

    /// Whether a run of a rule was cut off, among the first repetitions.
    pub fn is_cut_off(&self, rule: &str) -> bool {
        self.time(rule).is_some_and(|time| time.is_cut_off)
    }

    /// The speed of a rule over that of the best fixed one, by the first repetitions.
    pub fn ratio(&self, rule: &str) -> Option<f64> {
        Some(self.seconds(&self.best)? / self.seconds(rule)?)
    }

    /// The judgement of a rule.
    pub fn rule(&self, rule: &str) -> Option<&JudgedRule> {
        self.rules.iter().find(|judged| judged.rule == rule)
    }
}

pub(super) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    stats::average(&logarithms).map(|mean| six_digits(mean.exp()))
}

fn percent(part: usize, of: usize) -> f64 {
    six_digits(100.0 * part as f64 / of.max(1) as f64)
}

/// The names of the schedulers of these cells, the oldest one first.
pub(super) fn schedulers(cells: &[Judged]) -> Vec<&str> {
    let mut names: Vec<&str> = cells.iter().map(|cell| cell.cell.kernel.name()).collect();
    let age = |name: &str| SCHEDULERS.iter().position(|scheduler| scheduler.name() == name);
    names.sort_by_key(|name| (age(name).unwrap_or(SCHEDULERS.len()), *name));
    names.dedup();
    names
}

fn summaries(plan: &Plan, cells: &[Judged]) -> Vec<Summary> {
    let rules = plan.rules.iter().map(WaitingRule::to_string).chain([COPY.to_owned()]);
    let of_rule = |rule: String| {
        let summary = move |scheduler: &str| {
            let is_here = |cell: &&Judged| [ALL, cell.cell.kernel.name()].contains(&scheduler);
            let here: Vec<(&Judged, &Closeness)> =
                cells.iter().filter(is_here).filter_map(|cell| Some((cell, &cell.rule(&rule)?.closeness))).collect();
            let speeds: Vec<f64> = here.iter().map(|(_, closeness)| closeness.speed.mean).collect();
            let mut teams = here.clone();
            teams.retain(|(cell, _)| cell.cell.company.has_several_teams());
            let of_teams = |of: fn(&Closeness) -> f64| {
                geometric_mean(&teams.iter().map(|(_, closeness)| of(closeness)).collect::<Vec<_>>())
            };
            Some(Summary {
                rule: rule.clone(),
                scheduler: scheduler.to_owned(),
                cells: here.len(),
                close_percent: percent(speeds.iter().filter(|speed| **speed >= CLOSE).count(), speeds.len()),
                mean: geometric_mean(&speeds)?,
                worst: six_digits(speeds.iter().copied().fold(f64::INFINITY, f64::min)),
                teams_mean: of_teams(|closeness| closeness.speed.mean),
                worst_team_mean: of_teams(|closeness| closeness.worst_team),
            })
        };
        schedulers(cells).into_iter().chain([ALL]).filter_map(summary).collect::<Vec<_>>()
    };
    rules.flat_map(of_rule).collect()
}

/// For each kernel and rule, in how many cells something happens to the rule.
fn shares(rules: &[String], cells: &[Judged], happens: fn(&Judged, &str) -> bool) -> Vec<Share> {
    let share = |scheduler: &str, rule: &String| {
        let here: Vec<&Judged> = cells.iter().filter(|cell| cell.cell.kernel.name() == scheduler).collect();
        let percent = percent(here.iter().filter(|cell| happens(cell, rule)).count(), here.len());
        Share { scheduler: scheduler.to_owned(), rule: rule.clone(), percent }
    };
    let schedulers = schedulers(cells).into_iter();
    schedulers.flat_map(|scheduler| rules.iter().map(move |rule| share(scheduler, rule))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::today::judgement::tests::{clear, plan};
    use crate::today::runs::Run;

    #[test]
    fn a_summary_counts_close_cells_and_a_cell_that_is_not_close_is_named() {
        let plan = plan();
        let conclusions = Conclusions::new(Grid::First, &plan, &clear(&plan.cells[0]));
        let scheduler = plan.cells[0].kernel.name();
        let of = |rule: &str| {
            let of_rule = conclusions.summaries.iter().filter(|summary| summary.rule == rule);
            let row = |of: &Summary| (of.scheduler.clone(), of.cells, of.close_percent, of.mean, of.worst);
            of_rule.map(row).collect::<Vec<_>>()
        };
        let rows = |percent, ratio| [scheduler, ALL].map(|name| (name.to_owned(), 1, percent, ratio, ratio));
        assert_eq!(of("adaptive"), rows(0.0, 0.5));
        assert_eq!(of(COPY), rows(100.0, 1.0));
        let worst = conclusions.worst("adaptive");
        assert_eq!((worst.len(), worst[0].1.best.as_str()), (1, "always-block"));
        assert!(conclusions.worst(COPY).is_empty());
        let best = conclusions.best.iter().find(|share| share.percent > 0.0).unwrap();
        assert_eq!((best.scheduler.as_str(), best.rule.as_str(), best.percent), (scheduler, "always-block", 100.0));
    }

    #[test]
    fn a_rule_of_which_a_run_was_cut_off_is_named() {
        let plan = plan();
        let mut runs = clear(&plan.cells[0]);
        let last = runs.iter().find(|run| run.rule == "colocate" && run.repeat == 2).unwrap().clone();
        runs.insert(Run { is_cut_off: true, ..last });
        let conclusions = Conclusions::new(Grid::First, &plan, &runs);
        let cut_off: Vec<_> = conclusions.cut_off.iter().map(|of| (of.rule.as_str(), of.percent)).collect();
        let expected = [
            ("always-block", 0.0),
            ("2cs+", 0.0),
            ("always-spin", 0.0),
            ("always-yield", 0.0),
            ("colocate", 100.0),
            ("adaptive", 0.0),
        ];
        assert_eq!(cut_off, expected);
    }

    #[test]
    fn a_cell_without_all_runs_is_incomplete() {
        let plan = plan();
        let conclusions = Conclusions::new(Grid::First, &plan, &Runs::default());
        assert_eq!((conclusions.incomplete, conclusions.cells.len()), (1, 0));
    }
}
