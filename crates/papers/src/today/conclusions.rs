//! The conclusions from the runs of a grid: for each kernel, how close each rule comes to the best
//! fixed rule of each cell.

use std::collections::BTreeMap;

use policy::waiting::WaitingRule;
use scenario::Scheduler;
use serde::Serialize;
use stats::six_digits;

use super::cell::Cell;
use super::grid::{Grid, SCHEDULERS};
use super::judgement::{CLOSE, Closeness, Judge, States, Subject};
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
    pub best: Vec<BestShare>,
    /// The speed-ups of all rules over immediate blocking.
    pub speed_ups: Vec<SpeedUps>,
    /// The cells that are complete.
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

/// How often a fixed rule is the best under a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BestShare {
    /// The kernel's scheduler.
    pub scheduler: String,
    /// The rule.
    pub rule: String,
    /// The percentage of cells in which it is the best.
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
    /// The mean times of all rules, in seconds, by the first repetitions.
    pub seconds: BTreeMap<String, f64>,
    /// The rules, with how close they come to the best, and [`COPY`].
    pub rules: Vec<JudgedRule>,
    /// The bistable rules with their states.
    pub bistable: BTreeMap<String, States>,
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
        let rules: Vec<String> = FIXED.iter().chain(&plan.rules).map(WaitingRule::to_string).collect();
        Conclusions {
            grid,
            incomplete: plan.cells.len() - cells.len(),
            summaries: summaries(plan, &cells),
            best: best(&cells),
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
        let seconds = |rule: &WaitingRule| Some((rule.to_string(), six_digits(judge.seconds(*rule, plan.repeat)?)));
        let states = |rule: &WaitingRule| Some((rule.to_string(), judge.states(*rule)?));
        Some(Judged {
            cell: cell.clone(),
            load: six_digits(cell.load()),
            seconds: all.iter().map(seconds).collect::<Option<_>>()?,
            rules: judge.subjects().map(rule).collect::<Option<_>>()?,
            bistable: all.iter().filter_map(states).collect(),
        })
    }

    /// The speed of a rule over that of the best fixed one, by the first repetitions.
    pub fn ratio(&self, rule: &str) -> Option<f64> {
        let best = FIXED.iter().filter_map(|rule| self.seconds.get(&rule.to_string())).copied();
        Some(best.fold(f64::INFINITY, f64::min) / self.seconds.get(rule)?)
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

/// The names of the schedulers of a grid.
pub(super) fn schedulers() -> impl Iterator<Item = &'static str> {
    SCHEDULERS.into_iter().map(Scheduler::name)
}

fn summaries(plan: &Plan, cells: &[Judged]) -> Vec<Summary> {
    let rules = plan.rules.iter().map(WaitingRule::to_string).chain([COPY.to_owned()]);
    let of_rule = |rule: String| {
        let summary = move |scheduler: &str| {
            let is_here = |cell: &&Judged| [ALL, cell.cell.scheduler.name()].contains(&scheduler);
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
        schedulers().chain([ALL]).filter_map(summary).collect::<Vec<_>>()
    };
    rules.flat_map(of_rule).collect()
}

fn best(cells: &[Judged]) -> Vec<BestShare> {
    let share = |scheduler: &'static str, rule: WaitingRule| {
        let here: Vec<&Judged> = cells.iter().filter(|cell| cell.cell.scheduler.name() == scheduler).collect();
        let rule = rule.to_string();
        let is_best = |cell: &&&Judged| cell.rule(COPY).is_some_and(|copy| copy.best == rule);
        let percent = percent(here.iter().filter(is_best).count(), here.len());
        BestShare { scheduler: scheduler.to_owned(), rule, percent }
    };
    schedulers().flat_map(|scheduler| FIXED.into_iter().map(move |rule| share(scheduler, rule))).collect()
}
