//! The grids: which machines and jobs are drawn.
//!
//! Every grid is a [Latin hypercube](super::hypercube) over kernels, machines, grains, loads and
//! companies. The first was there while rules were designed. The other has other sizes, costs and
//! seeds; a rule that was tuned on the first grid meets it for the first time.

use scenario::{Scheduler, Span};
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Company, Kernel};
use super::hypercube;

/// The schedulers, the oldest one first.
pub const SCHEDULERS: [Scheduler; 4] = [Scheduler::Linux24, Scheduler::LinuxO1, Scheduler::Cfs, Scheduler::Eevdf];

/// The number of cells of a slice. It is a multiple of the number of schedulers, of machine sizes,
/// of wakeup costs and of companies, so that a slice has equally many of each.
pub const SLICE: u32 = 48;

/// The number of slices of the sample.
const SAMPLE: u32 = 2;

/// The number of loads: 0.5 to 3 in eighths.
const LOADS: u32 = 21;

/// A grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grid {
    /// The grid on which rules may be designed.
    First,
    /// The grid for a rule that does not change any more.
    HeldOut,
    /// The cells of [this machine](super::on_host).
    Host,
}

/// The cells of a grid that are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The first slices of the first grid.
    Sample,
    /// The first grid.
    Whole,
    /// The other grid.
    HeldOut,
}

impl Extent {
    /// All extents.
    pub const ALL: [Extent; 3] = [Extent::Sample, Extent::Whole, Extent::HeldOut];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Extent::Sample => "sample",
            Extent::Whole => "whole",
            Extent::HeldOut => "held-out",
        }
    }

    /// The grid.
    pub const fn grid(self) -> Grid {
        match self {
            Extent::Sample | Extent::Whole => Grid::First,
            Extent::HeldOut => Grid::HeldOut,
        }
    }

    /// The cells.
    pub fn cells(self) -> Vec<Cell> {
        let mut cells = self.grid().cells();
        if self == Extent::Sample {
            cells.truncate((SAMPLE * SLICE) as usize);
        }
        cells
    }
}

/// What the cells of a grid are drawn from.
struct Ranges {
    slices: u32,
    seed: u64,
    cpus: [u32; 8],
    wakeup_costs_us: [u64; 4],
    /// The cost of a switch, under `linux-2.4` and under the others.
    switches_us: [u64; 2],
    /// The shortest and the longest grain, in multiples of CS.
    grains: (f64, f64),
}

impl Grid {
    /// The simulated grids.
    pub const SIMULATED: [Grid; 2] = [Grid::First, Grid::HeldOut];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Grid::First => "first",
            Grid::HeldOut => "held-out",
            Grid::Host => "host",
        }
    }

    const fn ranges(self) -> Option<Ranges> {
        Some(match self {
            Grid::First => Ranges {
                slices: 20,
                seed: 1,
                cpus: [2, 4, 8, 16, 32, 64, 128, 256],
                wakeup_costs_us: [0, 5, 20, 40],
                switches_us: [6, 2],
                grains: (0.05, 50.0),
            },
            Grid::HeldOut => Ranges {
                slices: 10,
                seed: 2,
                cpus: [3, 6, 12, 24, 48, 96, 144, 192],
                wakeup_costs_us: [2, 10, 15, 30],
                switches_us: [5, 3],
                grains: (0.04, 70.0),
            },
            Grid::Host => return None,
        })
    }

    /// All cells, slice by slice. Their numbers count from one. None of [`Grid::Host`], whose cells
    /// depend on this machine.
    pub fn cells(self) -> Vec<Cell> {
        let Some(ranges) = self.ranges() else { return Vec::new() };
        let points = hypercube::draw::<7>(ranges.slices, SLICE, ranges.seed);
        (1..).zip(points).map(|(number, point)| self.cell(&ranges, number, point)).collect()
    }

    fn cell(self, ranges: &Ranges, number: u32, point: [f64; 7]) -> Cell {
        let [scheduler, cpus, wakeup, jobs @ ..] = point;
        let scheduler = one_of(&SCHEDULERS, scheduler);
        let [of_2_4, of_others] = ranges.switches_us;
        let switch = if scheduler == Scheduler::Linux24 { of_2_4 } else { of_others };
        let machine = Machine {
            kernel: Kernel::Simulated(scheduler),
            cpus: one_of(&ranges.cpus, cpus),
            context_switch: Span::from_micros(switch),
            wakeup_cost: Span::from_micros(one_of(&ranges.wakeup_costs_us, wakeup)),
        };
        machine.with_jobs(self, number, &Company::ALL, ranges.grains, jobs)
    }
}

/// The machine of a cell.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) kernel: Kernel,
    pub(super) cpus: u32,
    pub(super) context_switch: Span,
    pub(super) wakeup_cost: Span,
}

impl Machine {
    /// The cell with the jobs of a point: its grain, load, company and size of a team.
    pub(super) fn with_jobs(
        self,
        grid: Grid,
        number: u32,
        companies: &[Company],
        (finest, coarsest): (f64, f64),
        [grain, load, company, team]: [f64; 4],
    ) -> Cell {
        let Machine { kernel, cpus, context_switch, wakeup_cost } = self;
        let eighths = 4 + (load * f64::from(LOADS)) as u32;
        let company = one_of(companies, company);
        let threads = (eighths * cpus).div_ceil(8).max(company.fewest_threads());
        let largest = f64::from(company.largest_team(threads).min(cpus).max(2));
        Cell {
            grid,
            number,
            kernel,
            cpus,
            context_switch,
            wakeup_cost,
            grain: round(finest * (coarsest / finest).powf(grain)),
            company,
            threads,
            // Small and large teams are equally likely, up to the size of the machine.
            team: if company == Company::Alone { threads } else { (2.0 * (largest / 2.0).powf(team)).round() as u32 },
        }
    }
}

fn one_of<T: Copy>(values: &[T], at: f64) -> T {
    values[(at * values.len() as f64) as usize]
}

/// Rounds to hundredths, so that no result depends on the last digits of a power.
fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn counts<T: Ord>(cells: &[Cell], of: impl Fn(&Cell) -> T) -> Vec<usize> {
        let mut counts: BTreeMap<T, usize> = BTreeMap::new();
        cells.iter().for_each(|cell| *counts.entry(of(cell)).or_default() += 1);
        counts.into_values().collect()
    }

    #[test]
    fn every_slice_has_each_kernel_size_cost_and_company_equally_often() {
        for grid in Grid::SIMULATED {
            let cells = grid.cells();
            assert!(cells.len() <= 1000);
            for slice in cells.chunks(SLICE as usize) {
                assert_eq!(counts(slice, |cell| cell.kernel.name().to_owned()), [12; 4]);
                assert_eq!(counts(slice, |cell| cell.cpus), [6; 8]);
                assert_eq!(counts(slice, |cell| cell.wakeup_cost), [12; 4]);
                assert_eq!(counts(slice, |cell| cell.company), [6; 8]);
            }
        }
    }

    #[test]
    fn grains_and_loads_are_spread_over_their_ranges() {
        let cells = Grid::First.cells();
        // The logarithms of the grains are uniform: as many below the middle as above.
        let fine = cells.iter().filter(|cell| cell.grain < (0.05_f64 * 50.0).sqrt()).count();
        assert!(fine.abs_diff(cells.len() / 2) <= 2, "{fine}");
        let large: Vec<Cell> = cells.into_iter().filter(|cell| cell.cpus >= 16).collect();
        assert!(large.iter().all(|cell| (0.5..=3.0).contains(&cell.load())));
        assert_eq!(counts(&large, |cell| (cell.load() * 8.0) as u32).len(), LOADS as usize);
    }

    #[test]
    fn the_grids_have_no_machine_in_common() {
        let machine = |cell: &Cell| (cell.cpus, cell.context_switch + cell.wakeup_cost);
        let first: Vec<_> = Grid::First.cells().iter().map(machine).collect();
        assert!(Grid::HeldOut.cells().iter().all(|cell| !first.contains(&machine(cell))));
    }
}
