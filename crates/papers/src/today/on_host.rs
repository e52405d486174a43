//! The grid on this machine: a few cells of its size, and the order and number of their runs.
//!
//! Every run is cut off after [`HOST_RUN`], so all take equally long, whatever the rule: a team
//! that spins on a machine with too many threads does not take forever, it has made few rounds.
//!
//! Runs come in rounds. In each, every cell has a block in which each rule runs once, and a copy of
//! the fixed rule that was the best in the earlier rounds, in random order. So a machine that gets
//! busier affects all of them alike, the copy included. If there was another best rule before, or
//! none, the copy makes up for the rounds that it lacks.

use std::collections::BTreeSet;
use std::time::Duration;

use host::HostCalibration;
use host::calibration::twin;
use host::doctor::DoctorReport;
use measure::interleaving;
use policy::Span;
use policy::waiting::WaitingRule;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Company, HOST_RUN, Kernel};
use super::conclusions::GridReport;
use super::grid::{Grid, Machine};
use super::hypercube;
use super::judgement::Judge;
use super::runs::{FIXED, OF_COPY, Plan, Run, Runs, Step};

/// The number of cells, as many of each company.
pub const CELLS: u32 = 25;
/// The shortest and the longest grain, in multiples of CS.
const GRAINS: (f64, f64) = (0.05, 50.0);
/// The seed of the cells.
const SEED: u64 = 3;
const COMPANIES: [Company; 5] = [Company::Alone, Company::Hogs, Company::Blockers, Company::Spinners, Company::Equal];

/// About how long all runs take together.
pub const BUDGET: Duration = Duration::from_secs(15 * 60);
/// Fewer rounds would leave every cell undecided.
const FEWEST_ROUNDS: u32 = 3;
/// More rounds would decide nothing.
const MOST_ROUNDS: u32 = 30;

/// Other programs disturbed a run if they took more than this share of the machine, in percent.
const DISTURBED_PERCENT: f64 = 10.0;

/// The name of the file to send in.
pub const FILE: &str = "barrier-today-host.json";

/// The settings of a measurement, which all its runs have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The rules beside the fixed ones, in words.
    pub rules: Vec<String>,
    /// The number of rounds.
    pub repeat: u32,
    /// The machine with its costs.
    pub calibration: HostCalibration,
}

/// The cells of a machine. They depend on the number of its CPUs and on its costs alone.
pub fn cells(calibration: &HostCalibration) -> Vec<Cell> {
    let twin = twin(calibration);
    let machine = Machine {
        kernel: Kernel::Host(calibration.machine.scheduler()),
        cpus: calibration.machine.cpus,
        context_switch: twin.context_switch,
        wakeup_cost: twin.wakeup_cost,
    };
    let points = hypercube::draw::<4>(1, CELLS, SEED);
    let cell = |(number, point)| machine.clone().with_jobs(Grid::Host, number, &COMPANIES, GRAINS, point);
    (1..).zip(points).map(cell).map(Cell::in_few_processes).collect()
}

/// The cell whose jobs take the longest to start: that with the most processes.
pub fn slowest_to_start(cells: &[Cell]) -> Option<&Cell> {
    let processes = |cell: &Cell| cell.setting(FIXED[0], 0).jobs.iter().map(|job| job.copies).sum::<u32>();
    cells.iter().max_by_key(|cell| (processes(cell), cell.threads))
}

/// The number of runs in a round, with the copy.
pub fn runs_of_round(plan: &Plan) -> u32 {
    (plan.cells.len() * (plan.all_rules().len() + 1)) as u32
}

/// The number of rounds of so many runs, each of which takes so long, for [`BUDGET`].
pub fn rounds(runs: u32, each: Duration) -> u32 {
    let round = each.saturating_mul(runs).as_secs_f64();
    ((BUDGET.as_secs_f64() / round) as u32).clamp(FEWEST_ROUNDS, MOST_ROUNDS)
}

/// The missing runs of a round, in their order. The earlier rounds have been made.
pub fn round<'a>(plan: &'a Plan, runs: &Runs, number: u32) -> Vec<Step<'a>> {
    let mut cells: Vec<&Cell> = plan.cells.iter().collect();
    interleaving::shuffle(&mut cells, plan.seed, number);
    cells.into_iter().flat_map(|cell| block(plan, cell, runs, number)).collect()
}

fn block<'a>(plan: &'a Plan, cell: &'a Cell, runs: &Runs, number: u32) -> Vec<Step<'a>> {
    /// More than there are rounds.
    const ORDERS: u32 = 10_000;
    let mut block: Vec<_> = plan.all_rules().into_iter().map(|rule| (rule, number)).collect();
    if number > 0
        && let Some(best) = Judge::new(plan, cell, runs).best(number)
    {
        block.extend((OF_COPY..=OF_COPY + number).map(|repeat| (best, repeat)));
    }
    interleaving::shuffle(&mut block, plan.seed, cell.number * ORDERS + number);
    plan.unmade(cell, block, runs)
}

/// The missing runs after all rounds: those of a copy, if another rule was the best after all.
pub fn last_round<'a>(plan: &'a Plan, runs: &Runs) -> Vec<Step<'a>> {
    let mut missing = plan.missing(runs);
    interleaving::shuffle(&mut missing, plan.seed, plan.repeat);
    missing
}

/// The number of rounds in which every rule has run in every cell.
pub fn complete_rounds(plan: &Plan, runs: &Runs) -> u32 {
    let has = |count| {
        let rules = plan.all_rules();
        plan.cells.iter().all(|cell| rules.iter().all(|rule| runs.of(cell, *rule, 0, count).is_some()))
    };
    (1..=plan.repeat).take_while(|count| has(*count)).last().unwrap_or(0)
}

/// The machine of measured cells, and how much other programs disturbed them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The name of the processor.
    pub cpu_model: String,
    /// The release of the kernel.
    pub kernel: String,
    /// The CPUs that this process may use.
    pub cpus: u32,
    /// CS.
    pub cs_ns: Span,
    /// The length of a run.
    pub run_ns: Span,
    /// The share of the machine that other programs took in the median run, in percent. `None` if
    /// the kernel does not report it.
    pub others_median_percent: Option<f64>,
    /// The number of runs in which they took more than 10 %.
    pub disturbed_runs: usize,
}

impl Measured {
    /// The machine of these runs.
    pub fn new(calibration: &HostCalibration, runs: &Runs) -> Measured {
        let others: Vec<f64> = runs.iter().filter_map(|run| run.others_percent).collect();
        let machine = &calibration.machine;
        Measured {
            cpu_model: machine.cpu_model.clone(),
            kernel: machine.kernel.clone(),
            cpus: machine.cpus,
            cs_ns: twin(calibration).costs().cs,
            run_ns: HOST_RUN,
            disturbed_runs: others.iter().filter(|percent| **percent > DISTURBED_PERCENT).count(),
            others_median_percent: stats::median(&others).map(stats::six_digits),
        }
    }

    /// A sentence about the machine and one about the disturbance.
    pub(super) fn in_words(&self) -> String {
        let Measured { cpu_model, kernel, cpus, cs_ns, run_ns, others_median_percent, disturbed_runs } = self;
        let cpus = report::words::counted((*cpus).into(), "CPU");
        let machine = format!("{cpu_model}, {cpus}, Linux {kernel}; CS is {cs_ns}, a run takes {run_ns}.");
        let others = others_median_percent.map(|median| {
            format!(" Other programs took {median:.1} % of the machine in the median run, and more than 10 % in {disturbed_runs}.")
        });
        machine + &others.unwrap_or_default()
    }
}

/// All that a measurement has found, in one file that needs no other.
#[derive(Clone, Debug, Serialize)]
pub struct Submission<'a> {
    /// The version of rowlock.
    pub rowlock_version: &'a str,
    /// What identifies the program.
    pub program_sha256: Option<&'a str>,
    /// When it began, in UTC.
    pub started: &'a str,
    /// The settings, with the machine and its costs.
    pub settings: &'a Settings,
    /// What this machine allows.
    pub doctor: &'a DoctorReport,
    /// The cells and the judgement.
    pub report: &'a GridReport<'a>,
    /// All runs.
    pub runs: Vec<&'a Run>,
}

impl Plan {
    /// All rules, the fixed ones first, each once.
    pub fn all_rules(&self) -> Vec<WaitingRule> {
        let mut known = BTreeSet::new();
        let all = FIXED.iter().chain(&self.rules).copied();
        all.filter(|rule| known.insert(rule.to_string())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::Machine as Here;

    fn cells_of(cpus: u32) -> Vec<Cell> {
        cells(&HostCalibration::invented(Here {
            cpu_model: "a processor".to_owned(),
            kernel: "6.18.0".to_owned(),
            cpus_online: cpus,
            cpus_allowed: (0..cpus).collect(),
            cpus,
        }))
    }

    #[test]
    fn a_machine_of_any_size_has_cells_of_all_grains_loads_and_companies_that_it_can_run() {
        for cpus in [1, 2, 7, 64, 512] {
            let cells = cells_of(cpus);
            for company in COMPANIES {
                assert_eq!(cells.iter().filter(|cell| cell.company == company).count(), 5, "{cpus} CPUs");
            }
            let grains = |is_there: fn(f64) -> bool| cells.iter().filter(|cell| is_there(cell.grain)).count();
            // A third of the logarithms of the grains are in each decade.
            assert_eq!([grains(|grain| grain < 0.5), grains(|grain| grain > 5.0)], [8, 8], "{cpus} CPUs");
            for cell in &cells {
                let setting = cell.setting(WaitingRule::Adaptive, 1);
                assert!(setting.conflicts().is_empty(), "{cell}");
                assert_eq!(host::only_simulated(&setting), None, "{cell}");
                let threads: u32 = setting.jobs.iter().map(|job| job.copies * job.kind.threads(cpus)).sum();
                assert!(threads <= cell.threads && threads + 2 * cell.team > cell.threads, "{cell}: {threads}");
                assert!(setting.jobs.iter().all(|job| job.copies <= 64), "{cell}");
                assert!(cpus < 7 || (0.5..=3.0).contains(&cell.load()), "{cell}");
                assert!(cell.team <= cpus.max(2) || cell.company == Company::Alone, "{cell}");
                assert!(matches!(cell.kernel, Kernel::Host(_)), "{cell}");
            }
        }
    }

    #[test]
    fn the_rounds_take_about_a_quarter_of_an_hour_unless_that_is_too_few_or_too_many() {
        let of_150 = |millis| rounds(150, Duration::from_millis(millis));
        assert_eq!([550, 600, 1000, 10_000].map(of_150), [10, 10, 6, FEWEST_ROUNDS]);
        assert_eq!(rounds(6, Duration::from_millis(550)), MOST_ROUNDS);
    }

    /// Makes runs of which `always-block` takes the shortest, but for those of the first round.
    fn make(runs: &mut Runs, steps: Vec<Step<'_>>) -> Vec<(u32, String, u32)> {
        let make = |step: Step<'_>| {
            let (grid, cell, rule, repeat) = step.key();
            let is_best = step.rule == FIXED[if repeat == 0 { 1 } else { 0 }];
            let seconds = if is_best { 0.1 } else { f64::from(2 + cell) };
            let (worst_seconds, others_percent) = (seconds, Some(1.0));
            let place = (cell, rule.clone(), repeat);
            runs.insert(Run {
                grid,
                cell,
                rule,
                repeat,
                seconds,
                worst_seconds,
                is_cut_off: true,
                events: 0,
                others_percent,
            });
            place
        };
        steps.into_iter().map(make).collect()
    }

    fn plan() -> Plan {
        let rules = vec![WaitingRule::Adaptive, FIXED[0]];
        Plan { cells: cells_of(2), rules, repeat: 4, repeat_undecided: 4, seed: 1 }
    }

    #[test]
    fn a_round_has_a_block_of_each_cell_with_a_copy_of_the_best_rule_so_far() {
        let (plan, mut runs) = (plan(), Runs::default());
        assert_eq!(runs_of_round(&plan), 25 * 7);
        let mut orders = Vec::new();
        for number in 0..plan.repeat {
            let steps = round(&plan, &runs, number);
            let made = make(&mut runs, steps);
            // `2cs+` is the best in the first round, but not in two together.
            let (best, copies): (_, &[u32]) = match number {
                0 => (None, &[]),
                1 => (Some("2cs+"), &[0, 1]),
                2 => (Some("always-block"), &[0, 1, 2]),
                _ => (Some("always-block"), &[3]),
            };
            assert_eq!(made.len(), 25 * (6 + copies.len()));
            for block in made.chunk_by(|one, other| one.0 == other.0) {
                let rules = block.iter().filter(|run| run.2 == number).map(|run| &run.1).collect::<BTreeSet<_>>();
                assert_eq!(rules.len(), 6, "{block:?}");
                let of_copy = || block.iter().filter(|run| run.2 >= OF_COPY);
                assert!(of_copy().all(|run| Some(run.1.as_str()) == best), "{block:?}");
                let mut repeats: Vec<u32> = of_copy().map(|run| run.2 - OF_COPY).collect();
                repeats.sort_unstable();
                assert_eq!(repeats, copies);
                orders.push(block.iter().map(|run| run.1.clone()).collect::<Vec<_>>());
            }
        }
        assert!(orders.iter().any(|order| *order != orders[0]));
        assert_eq!((last_round(&plan, &runs).len(), plan.missing(&runs).len()), (0, 0));
        // With fewer rounds, another rule is the best.
        let fewer = Plan { repeat: 1, repeat_undecided: 1, ..plan };
        let lacks = last_round(&fewer, &runs.iter().filter(|run| run.repeat < OF_COPY).cloned().collect());
        assert!(lacks.iter().all(|step| step.key().2 == "2cs+" && step.repeat == OF_COPY));
        assert_eq!(lacks.len(), 25);
    }

    #[test]
    fn a_round_that_was_interrupted_is_continued_with_the_runs_that_it_lacks() {
        let plan = plan();
        let make_rounds = |runs: &mut Runs| {
            let round = |number| {
                let steps = round(&plan, runs, number);
                make(runs, steps)
            };
            (0..3).flat_map(round).collect::<Vec<_>>()
        };
        let mut whole = Runs::default();
        let mut all = make_rounds(&mut whole);
        let is_made = |run: &&Run| all[..400].contains(&(run.cell, run.rule.clone(), run.repeat));
        let mut runs: Runs = whole.iter().filter(is_made).cloned().collect();
        assert_eq!(complete_rounds(&plan, &runs), 2);
        let rest = make_rounds(&mut runs);
        assert_eq!(rest, all.split_off(400));
        assert_eq!([&whole, &runs].map(|runs| complete_rounds(&plan, runs)), [3, 3]);
    }
}
