//! The runs: their records, and which of them are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use measure::disturbance::Disturbance;
use measure::two_worlds::TwoWorlds;
use measure::world::Failure;
use policy::waiting::{Bound, WaitingRule};
use policy::{Instant, Span};
use scenario::result::Outcome;
use scenario::{Arm, Experiment, Scenario, Setting};
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Kernel};
use super::grid::Grid;
use super::judgement::Judge;

/// The fixed rules, the baseline first. The best of them in a cell, known only afterwards, is what
/// the other rules are measured against.
pub const FIXED: [WaitingRule; 5] = [
    WaitingRule::AlwaysBlock,
    WaitingRule::TwoPhase(Bound::OfCs { thousandths: 2000, plus: true }),
    WaitingRule::AlwaysSpin,
    WaitingRule::AlwaysYield,
    WaitingRule::Colocate,
];

/// The number of runs of each rule in a cell.
pub const REPEAT: u32 = 3;
/// The number in a cell that is undecided after [`REPEAT`].
pub const REPEAT_UNDECIDED: u32 = 10;
/// The repetitions from here on, with other seeds, are those of the copy of the best fixed rule.
pub const OF_COPY: u32 = 1_000_000;

/// The place of a run: its grid, cell, rule and repetition.
pub type Key = (Grid, u32, String, u32);

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The grid.
    pub grid: Grid,
    /// The number of the cell.
    pub cell: u32,
    /// The rule.
    pub rule: String,
    /// The repetition, from zero.
    pub repeat: u32,
    /// How long the measured teams took, in seconds: their geometric mean.
    pub seconds: f64,
    /// How long the slowest of them took.
    pub worst_seconds: f64,
    /// Whether the run was cut off at its limit.
    pub is_cut_off: bool,
    /// The number of simulated events.
    pub events: u64,
    /// The share of the machine that other programs took, in percent. `None` in the simulator.
    #[serde(default)]
    pub others_percent: Option<f64>,
}

impl Run {
    /// The key.
    pub fn key(&self) -> Key {
        (self.grid, self.cell, self.rule.clone(), self.repeat)
    }
}

/// A run to make.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The rule.
    pub rule: WaitingRule,
    /// The repetition.
    pub repeat: u32,
    /// The seed of the experiment.
    pub seed: u64,
}

impl Step<'_> {
    /// The key of the run.
    pub fn key(&self) -> Key {
        (self.cell.grid, self.cell.number, self.rule.to_string(), self.repeat)
    }

    /// Makes the run. Blocks until it has ended or `cancel` is true.
    ///
    /// # Errors
    ///
    /// [`Failure`]: it cannot be simulated, or was cancelled.
    pub fn make(&self, worlds: &TwoWorlds, cancel: &AtomicBool) -> Result<Run, Failure> {
        let setting = self.setting();
        let done = match self.cell.kernel {
            Kernel::Simulated(_) => self.simulate(&setting, worlds, cancel),
            Kernel::Host(_) => self.measure(&setting, worlds, cancel),
        };
        let done = done.map_err(|why| match why {
            Failure::Failed(why) => self.failed(&why.to_string()),
            other => other,
        })?;
        self.run(&setting, &done).ok_or_else(|| self.failed("no team was measured"))
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::Failed(format!("cell {}, {}: {why}", self.cell.number, self.rule).into())
    }

    fn simulate(&self, setting: &Setting, worlds: &TwoWorlds, cancel: &AtomicBool) -> Result<Done, Failure> {
        let (seed, limit) = (self.run_seed(), self.cell.limit());
        // Threads that yield to each other may keep the one that they wait for from the CPUs. A run
        // with a limit is cut off there, with the few rounds that it has made.
        let simulation = move |machine: &_, setting: &_| sim::run_until(machine, setting, seed, limit);
        let (outcome, end) = worlds.simulate(setting, simulation, cancel)?;
        Ok(Done { outcome, ran: Cell::ran_until(setting, seed, end), disturbance: None })
    }

    fn measure(&self, setting: &Setting, worlds: &TwoWorlds, cancel: &AtomicBool) -> Result<Done, Failure> {
        let limit = self.cell.limit().at.since(Instant::ZERO);
        let (run, disturbance) = worlds.run_on_host(setting, self.run_seed(), limit.into(), cancel)?;
        let ran = run.cut_off.into_iter().map(Option::unwrap_or_default).collect();
        Ok(Done { outcome: run.outcome, ran, disturbance })
    }

    /// The seed of the run: the same for all rules, so that their draws are equal.
    fn run_seed(&self) -> u64 {
        const CELLS: u64 = 1_000;
        let first = self.seed.wrapping_mul(CELLS).wrapping_add(u64::from(self.cell.number));
        first.wrapping_mul(2 * u64::from(OF_COPY)).wrapping_add(u64::from(self.repeat))
    }

    /// The machine and the jobs.
    pub fn setting(&self) -> Setting {
        self.cell.setting(self.rule, self.run_seed())
    }

    /// A scenario that simulates this without the limit.
    pub fn scenario(&self) -> Scenario {
        let arms = vec![Arm { factors: Vec::new(), setting: self.setting() }];
        let experiment = Experiment { repeat: 1, seed: self.run_seed(), compare: None, x: None };
        Scenario { title: format!("Cell {}: {}", self.cell.number, self.cell), arms, experiment }
    }

    /// The record of the run. `None` if no team was measured.
    fn run(&self, setting: &Setting, Done { outcome, ran, disturbance }: &Done) -> Option<Run> {
        let seconds = Cell::seconds(setting, &outcome.jobs, ran);
        let logarithms: Vec<f64> = seconds.iter().map(|seconds| seconds.ln()).collect();
        let (grid, cell, rule, repeat) = self.key();
        Some(Run {
            grid,
            cell,
            rule,
            repeat,
            seconds: stats::six_digits(stats::average(&logarithms)?.exp()),
            worst_seconds: stats::six_digits(seconds.iter().copied().fold(0.0, f64::max)),
            is_cut_off: outcome.jobs.iter().any(|job| job.rounds.is_some() && job.completion_ns.is_none()),
            events: outcome.machine.events.unwrap_or(0),
            others_percent: disturbance.map(|disturbance| stats::six_digits(disturbance.others_percent)),
        })
    }
}

/// A run that has ended.
struct Done {
    outcome: Outcome,
    /// How long each copy of a job ran if it was cut off.
    ran: Vec<Span>,
    disturbance: Option<Disturbance>,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cells.
    pub cells: Vec<Cell>,
    /// The rules beside the fixed ones.
    pub rules: Vec<WaitingRule>,
    /// The number of runs of each rule in a cell.
    pub repeat: u32,
    /// The number in an undecided cell.
    pub repeat_undecided: u32,
    /// The seed.
    pub seed: u64,
}

impl Plan {
    /// The first run of the first rule, if there is only one cell.
    pub fn first_of_one_cell(&self) -> Option<Step<'_>> {
        let ([cell], [rule, ..]) = (self.cells.as_slice(), self.rules.as_slice()) else { return None };
        Some(Step { cell, rule: *rule, repeat: 0, seed: self.seed })
    }

    /// The runs that are missing among these. As soon as they are made, others may be missing:
    /// those of the copies, which belong to the best rule, and those of undecided cells.
    pub fn missing(&self, runs: &Runs) -> Vec<Step<'_>> {
        let wanted = |cell| Judge::new(self, cell, runs).wanted();
        self.cells.iter().flat_map(|cell| self.unmade(cell, wanted(cell), runs)).collect()
    }

    /// Those of these runs of a cell, rules and repetitions, that are missing, each once.
    pub(super) fn unmade<'a>(&'a self, cell: &'a Cell, wanted: Vec<(WaitingRule, u32)>, runs: &Runs) -> Vec<Step<'a>> {
        let mut known = BTreeSet::new();
        let steps = wanted.into_iter().map(|(rule, repeat)| Step { cell, rule, repeat, seed: self.seed });
        steps.filter(|step| !runs.contains(&step.key()) && known.insert(step.key())).collect()
    }
}

/// The runs that have been made.
#[derive(Clone, Debug, Default)]
pub struct Runs(BTreeMap<Key, Run>);

impl Runs {
    /// Whether there is this run.
    pub fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    /// Adds a run.
    pub fn insert(&mut self, run: Run) {
        self.0.insert(run.key(), run);
    }

    /// The number of runs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All runs.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.0.values()
    }

    /// The first `count` runs of a rule in a cell, from repetition `from`. `None` if some are
    /// missing.
    pub(super) fn of(&self, cell: &Cell, rule: WaitingRule, from: u32, count: u32) -> Option<Vec<&Run>> {
        let key = |repeat| (cell.grid, cell.number, rule.to_string(), repeat);
        (from..from + count).map(|repeat| self.0.get(&key(repeat))).collect()
    }
}

impl FromIterator<Run> for Runs {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Runs {
        Runs(runs.into_iter().map(|run| (run.key(), run)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::today::judgement::tests::plan;

    #[test]
    fn the_scenario_of_a_cell_is_valid_and_runs_the_same() {
        let plan = plan();
        let step = plan.first_of_one_cell().unwrap();
        let text = step.scenario().to_toml();
        let read = scenario::read("cell.toml", text.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
        assert_eq!((&read.arms[0].setting, read.experiment.seed), (&step.setting(), step.run_seed()));
    }

    #[test]
    fn all_rules_of_a_cell_have_the_same_seeds_and_cells_and_repetitions_have_others() {
        let cells = Grid::First.cells();
        let seed = |cell: usize, rule, repeat| Step { cell: &cells[cell], rule, repeat, seed: 1 }.run_seed();
        assert_eq!(seed(0, FIXED[0], 0), seed(0, FIXED[1], 0));
        let mut seeds = vec![];
        for (cell, repeat) in [(0, 0), (0, 1), (0, OF_COPY), (0, OF_COPY + 9), (1, 0), (959, 9)] {
            seeds.push(seed(cell, FIXED[0], repeat));
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 6);
    }
}
