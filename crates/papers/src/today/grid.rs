//! The grid of the runs: schedulers, mixes of jobs, granularities, machines and loads, each with
//! every rule.
//!
//! The machine of `linux-2.4` is the paper's, with a context switch of 6 us and an allocation of
//! 200 us. The others have one of 2 us, and the kernels' own ticks and slices. Granularities are
//! relative to CS, as in the paper. The number of rounds is such that a thread computes for some
//! slices. Machines of more than 32 CPUs have fewer rounds and only one mix.

use scenario::{Arm, Diagnostics, Experiment, Granularity, Scenario, Scheduler};

/// The number of runs of each arm.
pub const REPEAT: u32 = 3;
/// The schedulers, the oldest one first.
pub const SCHEDULERS: [&str; 4] = ["linux-2.4", "linux-o1", "cfs", "eevdf"];
/// The rule that the others are compared with.
pub const BASELINE: &str = "always-block";
/// The rule of the paper's advice.
pub const ADVISED: &str = "2cs+";
/// The rules, the baseline first.
pub const RULES: [&str; 4] = [BASELINE, ADVISED, "adaptive", "always-spin"];
/// The numbers of CPUs.
pub const CPUS: [u32; 5] = [2, 8, 32, 128, 256];
/// Threads per CPU, in thousandths, for all mixes but the heterogeneous one.
const LOADS: [u32; 6] = [500, 1000, 1250, 1500, 2000, 3000];
/// Larger machines have only one mix.
const ALL_MIXES: u32 = 32;

/// The jobs of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mix {
    /// One job with half as many threads as CPUs, beside threads that only compute.
    Single,
    /// Equal jobs with a quarter as many threads as CPUs.
    Homogeneous,
    /// Equally many jobs of each granularity, of the same size.
    Heterogeneous,
}

impl Mix {
    /// All mixes.
    pub const ALL: [Mix; 3] = [Mix::Single, Mix::Homogeneous, Mix::Heterogeneous];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Mix::Single => "single",
            Mix::Homogeneous => "homogeneous",
            Mix::Heterogeneous => "heterogeneous",
        }
    }
}

/// A machine with its jobs, without the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    scheduler: Scheduler,
    mix: Mix,
    /// The granularity of the jobs. `None` if all of them are mixed.
    grain: Option<Granularity>,
    cpus: u32,
    /// The total number of threads.
    threads: u32,
}

/// All arms, with this number of repetitions.
///
/// # Errors
///
/// A generated scenario is invalid: a defect of rowlock.
pub fn scenario(repeat: u32, seed: u64) -> Result<Scenario, Diagnostics> {
    let mut arms = Vec::new();
    for cell in cells() {
        // With more threads than CPUs, spinning without end is no option.
        let is_sensible = |rule: &&str| *rule != "always-spin" || cell.threads <= cell.cpus;
        for rule in RULES.into_iter().filter(is_sensible) {
            let read = scenario::read("today.toml", cell.text(rule).as_bytes())?;
            arms.extend(read.arms.into_iter().map(|arm| Arm { factors: cell.factors(rule), ..arm }));
        }
    }
    let experiment = Experiment { repeat, seed, compare: Some(WAITING.to_owned()), x: None };
    Ok(Scenario { title: "Whether to spin at barriers on Linux, from 2.4 to today".to_owned(), arms, experiment })
}

// The paths of the factors, in their order.
pub(super) const SCHEDULER: &str = "machine.scheduler";
pub(super) const MIX: &str = "mix";
pub(super) const GRAIN: &str = "grain";
pub(super) const CPUS_PATH: &str = "machine.cpus";
pub(super) const THREADS: &str = "threads";
pub(super) const WAITING: &str = "waiting";

/// The granularity of arms with jobs of all granularities.
pub(super) const ALL_GRAINS: &str = "all";

/// The name of the jobs of this granularity.
pub(super) fn job(mix: &str, grain: Granularity) -> &'static str {
    if mix == Mix::Heterogeneous.name() { grain.name() } else { "crew" }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    let schedulers = Scheduler::ALL.into_iter().filter(|scheduler| SCHEDULERS.contains(&scheduler.name()));
    for scheduler in schedulers {
        for cpus in CPUS {
            for grain in Granularity::ALL {
                let mixes = [Mix::Single, Mix::Homogeneous].into_iter();
                for mix in mixes.filter(|mix| cpus <= ALL_MIXES || *mix == Mix::Single) {
                    let threads = LOADS.map(|load| load * cpus).into_iter().filter(|threads| threads % 1000 == 0);
                    let cell = |threads| Cell { scheduler, mix, grain: Some(grain), cpus, threads: threads / 1000 };
                    cells.extend(threads.map(cell).filter(Cell::is_possible));
                }
            }
            if cpus > 2 && cpus <= ALL_MIXES {
                let threads = [1, 2, 3, 4].map(|copies| 3 * copies * (cpus / 4));
                let cell = |threads| Cell { scheduler, mix: Mix::Heterogeneous, grain: None, cpus, threads };
                cells.extend(threads.map(cell));
            }
        }
    }
    cells
}

impl Cell {
    /// The number of threads of each barrier job.
    fn size(&self) -> u32 {
        match self.mix {
            Mix::Single => (self.cpus / 2).max(2),
            Mix::Homogeneous | Mix::Heterogeneous => (self.cpus / 4).max(2),
        }
    }

    fn is_possible(&self) -> bool {
        match self.mix {
            Mix::Single => self.threads >= self.size(),
            Mix::Homogeneous | Mix::Heterogeneous => self.threads.is_multiple_of(self.size()),
        }
    }

    fn rounds(&self, grain: Granularity) -> u32 {
        let rounds = match (self.scheduler.name(), grain) {
            ("linux-2.4", Granularity::Fine) => 2000,
            ("linux-2.4", Granularity::Medium) => 800,
            ("linux-2.4", Granularity::Coarse) => 200,
            (_, Granularity::Fine) => 6000,
            (_, Granularity::Medium) => 1500,
            (_, Granularity::Coarse) => 500,
        };
        if self.cpus > ALL_MIXES { rounds / 3 } else { rounds }
    }

    fn text(&self, rule: &str) -> String {
        let Cell { scheduler, mix, cpus, threads, .. } = *self;
        let costs = match scheduler.name() {
            "linux-2.4" => "step = \"1 us\", context_switch = \"6 us\"",
            _ => "context_switch = \"2 us\"",
        };
        let size = self.size();
        let job = |name: &str, grain: Granularity, copies: u32| {
            format!(
                "[[job]]\nname = \"{name}\"\nkind = \"barrier\"\nthreads = {size}\ncopies = {copies}\ngranularity = \"{}\"\n\
                 rounds = {}\nwaiting = \"{rule}\"\n",
                grain.name(),
                self.rounds(grain)
            )
        };
        let jobs = match (mix, self.grain) {
            (Mix::Single, Some(grain)) if threads > size => format!(
                "{}[[job]]\nname = \"crowd\"\nkind = \"cpu\"\nthreads = {}\n",
                job("crew", grain, 1),
                threads - size
            ),
            (_, Some(grain)) => job("crew", grain, threads / size),
            (_, None) => Granularity::ALL.map(|grain| job(grain.name(), grain, threads / size / 3)).concat(),
        };
        format!(
            "machine = {{ cpus = {cpus}, scheduler = \"{}\", {costs} }}\nexperiment.keep_running = true\n{jobs}",
            scheduler.name()
        )
    }

    fn factors(&self, rule: &str) -> Vec<(String, toml::Value)> {
        let grain = self.grain.map_or(ALL_GRAINS, Granularity::name);
        [
            (SCHEDULER, self.scheduler.name().into()),
            (MIX, self.mix.name().into()),
            (GRAIN, grain.into()),
            (CPUS_PATH, i64::from(self.cpus).into()),
            (THREADS, i64::from(self.threads).into()),
            (WAITING, rule.into()),
        ]
        .map(|(path, value): (&str, toml::Value)| (path.to_owned(), value))
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::evidence;
    use std::collections::BTreeSet;

    #[test]
    fn every_arm_is_valid_has_the_threads_that_it_says_and_a_baseline() {
        let scenario = scenario(3, 1).unwrap_or_else(|bad| panic!("{bad}"));
        let mut known = BTreeSet::new();
        for arm in &scenario.arms {
            let factors = measure::factor::of(arm);
            assert_eq!(factors[THREADS].as_integer(), Some(evidence::threads(arm) as i64), "{factors:?}");
            assert!(known.insert(format!("{factors:?}")), "twice: {factors:?}");
        }
        for arm in &scenario.arms {
            let mut rival = measure::factor::of(arm);
            rival.insert(WAITING.to_owned(), BASELINE.into());
            assert!(known.contains(&format!("{rival:?}")));
        }
    }
}
