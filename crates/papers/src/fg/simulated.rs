//! Simulated results: different kernels (table 2), and larger and smaller differences of priority.

use std::sync::atomic::AtomicBool;

use scenario::result::{Outcome, World};
use scenario::{Scenario, Setting};
use serde::Serialize;

use super::arms::{KERNELS, PaperRow, Variant};
use crate::ScenarioFile;
use measure::world::{Failure, Worlds};
use stats::{self, Estimate};

/// A simulated kernel: its scheduler, and the keys of `[machine]` that make it the kernel of the
/// thesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The name of the scheduler.
    pub scheduler: &'static str,
    /// Further keys.
    keys: &'static str,
}

/// The kernels, the oldest first; the others are compared with it. Linux 2.4 on a PC had 100 ticks
/// per second, and a timeslice of six ticks at nice value 0.
pub const KERNELS_SIMULATED: [Kernel; 4] =
    [OLDEST, Kernel { scheduler: "linux-o1", keys: "" }, Kernel { scheduler: "cfs", keys: "" }, NEWEST];

/// The kernels for which priorities are compared. With `linux-o1` a thread whose nice value rises
/// keeps its timeslice, which is as long as a whole small experiment.
pub const KERNELS_WITH_PRIORITIES: [Kernel; 2] = [OLDEST, NEWEST];

const OLDEST: Kernel = Kernel { scheduler: "linux-2.4", keys: "tick = \"10 ms\"\nallocation = 6\n" };
const NEWEST: Kernel = Kernel { scheduler: "eevdf", keys: "" };

/// The line of the scenarios that is replaced. The kernel's own keys follow it.
const SCHEDULER: &str = "scheduler = \"eevdf\"\n";
/// The nice value of I/O stages in the scenarios, which is replaced.
const NICE: &str = "nice = 0";
/// The nice values. The first is compared with each of the others.
const MAGNITUDES: [u32; 5] = [1, 5, 10, 19, 0];

/// One program on one simulated kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedRow {
    /// The program.
    pub variant: Variant,
    /// The scheduler.
    pub scheduler: String,
    /// The nice value of the I/O stages.
    pub nice: u32,
    /// The clock time, in seconds.
    pub clock_s: Estimate,
    /// The time over that of the oldest kernel or of the smallest difference of priority. `None`
    /// for that one itself.
    pub times_as_long: Option<Estimate>,
    /// The thesis' row, if it has one.
    pub paper: Option<PaperRow>,
    /// The thesis' ratio.
    pub papers_times_as_long: Option<f64>,
}

/// The scenario of a variant on a kernel.
pub fn scenario(variant: Variant, kernel: Kernel, nice: u32) -> ScenarioFile {
    let template = match variant {
        Variant::ComputeBound => include_str!("../../papers/fg/compute-bound.toml"),
        Variant::IoBound => include_str!("../../papers/fg/io-bound.toml"),
    };
    let text = for_kernel(template, kernel).replace(NICE, &format!("nice = {nice}"));
    let nice = if nice == 0 { String::new() } else { format!("-nice-{nice}") };
    ScenarioFile { file: format!("{}-{}{nice}.toml", variant.name(), kernel.scheduler), text }
}

/// Adapts a scenario to a kernel.
pub(super) fn for_kernel(template: &str, kernel: Kernel) -> String {
    template.replace(SCHEDULER, &format!("scheduler = \"{}\"\n{}", kernel.scheduler, kernel.keys))
}

/// Simulated rows, and the scenarios that were run.
type Simulated = (Vec<SimulatedRow>, Vec<ScenarioFile>);

/// Table 2: both variants on all kernels.
///
/// # Errors
/// [`Failure`]: a simulation failed or was cancelled.
pub fn kernels(seed: u64, worlds: &impl Worlds, cancel: &AtomicBool) -> Result<Simulated, Failure> {
    let mut all = Simulated::default();
    for (variant, old, new) in KERNELS {
        let before = all.0.len();
        compare(KERNELS_SIMULATED.map(|kernel| (variant, kernel, 0)), seed, worlds, cancel, &mut all)?;
        // The thesis compares two kernels. Its newer one is shown beside our newest.
        if let [oldest, .., newest] = &mut all.0[before..] {
            (oldest.paper, newest.paper) = (Some(old), Some(new));
            newest.papers_times_as_long = Some(new.clock_s / old.clock_s);
        }
    }
    Ok(all)
}

/// Larger and smaller differences of priority.
///
/// # Errors
/// Those of [`kernels`].
pub fn magnitudes(seed: u64, worlds: &impl Worlds, cancel: &AtomicBool) -> Result<Simulated, Failure> {
    let mut all = Simulated::default();
    for kernel in KERNELS_WITH_PRIORITIES {
        let cells = MAGNITUDES.map(|nice| (Variant::ComputeBound, kernel, nice));
        compare(cells, seed, worlds, cancel, &mut all)?;
    }
    Ok(all)
}

/// Simulates programs on kernels with a nice value of the I/O stages. The first is the baseline of
/// the others.
fn compare<const N: usize>(
    cells: [(Variant, Kernel, u32); N],
    seed: u64,
    worlds: &impl Worlds,
    cancel: &AtomicBool,
    (rows, files): &mut Simulated,
) -> Result<(), Failure> {
    let mut baseline: Option<Vec<f64>> = None;
    for (variant, kernel, nice) in cells {
        let file = scenario(variant, kernel, nice);
        let clocks = clocks(&file, seed, worlds, cancel)?;
        // Run by run: the seeds are the same, and so is the work.
        let ratio = |others: &Vec<f64>| {
            let logarithms: Vec<f64> = clocks.iter().zip(others).map(|(one, other)| (one / other).ln()).collect();
            Some(stats::mean(&logarithms)?.map(f64::exp))
        };
        rows.extend(stats::mean(&clocks).map(|clock_s| SimulatedRow {
            variant,
            scheduler: kernel.scheduler.to_owned(),
            nice,
            clock_s,
            times_as_long: baseline.as_ref().and_then(ratio),
            paper: None,
            papers_times_as_long: None,
        }));
        baseline.get_or_insert(clocks);
        files.push(file);
    }
    Ok(())
}

/// The completion times of a scenario's first job, one for each repetition, in seconds.
fn clocks(file: &ScenarioFile, seed: u64, worlds: &impl Worlds, cancel: &AtomicBool) -> Result<Vec<f64>, Failure> {
    let Scenario { arms, experiment, .. } = file.read()?;
    let arm = arms.first().ok_or_else(|| Failure::Failed("a scenario without arms".into()))?;
    let clock = |round: u32| clock(&arm.setting, seed.wrapping_add(u64::from(round)), worlds, cancel);
    (0..experiment.repeat).map(clock).collect()
}

/// Simulates the first job and returns its completion time, in seconds.
pub(super) fn clock(setting: &Setting, seed: u64, worlds: &impl Worlds, cancel: &AtomicBool) -> Result<f64, Failure> {
    completion(&worlds.run(World::Sim, setting, seed, false, cancel)?.outcome)
}

/// The completion time of the first job, in seconds.
pub(super) fn completion(outcome: &Outcome) -> Result<f64, Failure> {
    let completion = outcome.jobs.first().and_then(|job| job.completion_ns);
    completion.map(policy::Span::as_secs_f64).ok_or_else(|| Failure::Failed("a job has not ended".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::two_worlds::TwoWorlds;
    use std::num::NonZeroUsize;

    #[test]
    fn every_scenario_is_valid_and_has_the_requested_kernel_and_nice_value() {
        for variant in Variant::ALL {
            for kernel in KERNELS_SIMULATED {
                for nice in MAGNITUDES {
                    let file = scenario(variant, kernel, nice);
                    let machine = &file.read().unwrap().arms[0].setting.machine;
                    assert_eq!(machine.scheduler.map(scenario::Scheduler::name), Some(kernel.scheduler));
                    assert_eq!(file.text.matches(&format!("nice = {nice},")).count(), 2, "{}", file.text);
                }
            }
        }
    }

    #[test]
    fn the_programs_use_the_processors_as_in_the_thesis() {
        let worlds = TwoWorlds::new(None, NonZeroUsize::MIN);
        for (variant, clock_s, used) in [(Variant::ComputeBound, 12.61, 194.6), (Variant::IoBound, 24.26, 143.6)] {
            let setting = scenario(variant, KERNELS_SIMULATED[0], 0).read().unwrap().arms[0].setting.clone();
            let outcome = worlds.run(World::Sim, &setting, 1, false, &AtomicBool::new(false)).unwrap().outcome;
            let clock = completion(&outcome).unwrap();
            let percent = outcome.jobs[0].cpu_ns.unwrap().as_secs_f64() / clock * 100.0;
            assert!((clock / clock_s - 1.0).abs() < 0.05, "{}: {clock} s", variant.name());
            assert!((percent / used - 1.0).abs() < 0.05, "{}: {percent} %", variant.name());
        }
    }
}
