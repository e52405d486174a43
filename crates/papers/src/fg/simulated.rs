//! Simulated results: different kernels (table 2), and larger and smaller differences of priority.

use std::sync::atomic::AtomicBool;

use scenario::result::{Outcome, World};
use scenario::{Scenario, Setting};
use serde::Serialize;

use super::arms::{KERNELS, PaperRow, Variant};
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
pub const WITH_PRIORITIES: [Kernel; 2] = [OLDEST, NEWEST];

const OLDEST: Kernel = Kernel { scheduler: "linux-2.4", keys: "tick = \"10 ms\"\nallocation = 6\n" };
const NEWEST: Kernel = Kernel { scheduler: "eevdf", keys: "" };

/// The line of the scenarios that is replaced. The kernel's own keys follow it.
const SCHEDULER: &str = "scheduler = \"eevdf\"\n";
/// The nice value of I/O stages in the scenarios, which is replaced.
const NICE: &str = "nice = 0";
/// The nice values. The first is compared with each of the others.
const MAGNITUDES: [u32; 5] = [1, 5, 10, 19, 0];

/// A scenario that was run, to be kept with the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFile {
    /// The name of the file.
    pub file: String,
    /// Its content.
    pub text: String,
}

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

/// Table 2: both variants on all kernels.
///
/// # Errors
/// [`Failure`]: a simulation failed or was cancelled.
pub fn kernels(
    repeat: Option<u32>,
    seed: u64,
    worlds: &impl Worlds,
    cancel: &AtomicBool,
) -> Result<(Vec<SimulatedRow>, Vec<ScenarioFile>), Failure> {
    let (mut rows, mut written) = (Vec::new(), Vec::new());
    for (variant, old, new) in KERNELS {
        let mut oldest: Option<Vec<f64>> = None;
        for kernel in KERNELS_SIMULATED {
            let of_it = scenario(variant, kernel, 0);
            let clocks = clocks(&of_it, repeat, seed, worlds, cancel)?;
            let is_oldest = oldest.is_none();
            rows.extend(simulated_row(
                variant,
                kernel,
                0,
                &clocks,
                oldest.as_deref(),
                if is_oldest { old } else { None },
            ));
            oldest.get_or_insert(clocks);
            written.push(of_it);
        }
        // The thesis compares two kernels. Its newer one is shown beside our newest.
        if let (Some(newest), Some(old), Some(new)) = (rows.last_mut(), old, new) {
            newest.paper = Some(new);
            newest.papers_times_as_long = Some(new.clock_s / old.clock_s);
        }
    }
    Ok((rows, written))
}

/// Larger and smaller differences of priority.
///
/// # Errors
/// Those of [`kernels`].
pub fn magnitudes(
    repeat: Option<u32>,
    seed: u64,
    worlds: &impl Worlds,
    cancel: &AtomicBool,
) -> Result<(Vec<SimulatedRow>, Vec<ScenarioFile>), Failure> {
    let (mut rows, mut written) = (Vec::new(), Vec::new());
    for kernel in WITH_PRIORITIES {
        let mut smallest: Option<Vec<f64>> = None;
        for nice in MAGNITUDES {
            let of_it = scenario(Variant::ComputeBound, kernel, nice);
            let clocks = clocks(&of_it, repeat, seed, worlds, cancel)?;
            rows.extend(simulated_row(Variant::ComputeBound, kernel, nice, &clocks, smallest.as_deref(), None));
            smallest.get_or_insert(clocks);
            written.push(of_it);
        }
    }
    Ok((rows, written))
}

fn simulated_row(
    variant: Variant,
    kernel: Kernel,
    nice: u32,
    clocks: &[f64],
    others: Option<&[f64]>,
    paper: Option<PaperRow>,
) -> Option<SimulatedRow> {
    // Run by run: the seeds are the same, and so is the work.
    let ratios =
        others.map(|others| clocks.iter().zip(others).map(|(one, other)| (one / other).ln()).collect::<Vec<f64>>());
    Some(SimulatedRow {
        variant,
        scheduler: kernel.scheduler.to_owned(),
        nice,
        clock_s: stats::mean(clocks)?,
        times_as_long: ratios.and_then(|ratios| stats::mean(&ratios)).map(|ratio| ratio.map(f64::exp)),
        paper,
        papers_times_as_long: None,
    })
}

/// The completion times of a scenario's first job, one for each repetition, in seconds.
fn clocks(
    written: &ScenarioFile,
    repeat: Option<u32>,
    seed: u64,
    worlds: &impl Worlds,
    cancel: &AtomicBool,
) -> Result<Vec<f64>, Failure> {
    let scenario = read(&written.file, &written.text)?;
    let setting = scenario.arms.first().map(|arm| &arm.setting);
    let setting = setting.ok_or_else(|| Failure::Failed("a scenario without arms".into()))?;
    let repeat = repeat.unwrap_or(scenario.experiment.repeat);
    (0..repeat).map(|round| clock(setting, seed.wrapping_add(u64::from(round)), worlds, cancel)).collect()
}

/// Simulates the first job and returns its completion time, in seconds.
pub(super) fn clock(setting: &Setting, seed: u64, worlds: &impl Worlds, cancel: &AtomicBool) -> Result<f64, Failure> {
    completion(&worlds.run(World::Sim, setting, seed, cancel)?.outcome)
}

/// The completion time of the first job, in seconds.
pub(super) fn completion(outcome: &Outcome) -> Result<f64, Failure> {
    let completion = outcome.jobs.first().and_then(|job| job.completion_ns);
    completion.map(policy::Span::as_secs_f64).ok_or_else(|| Failure::Failed("a job has not ended".into()))
}

/// Parses a built-in scenario.
pub(super) fn read(name: &str, text: &str) -> Result<Scenario, Failure> {
    // A parse error would be a defect of rowlock.
    scenario::read(name, text.as_bytes()).map_err(|why| Failure::Failed(why.to_string().into()))
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
                    let ScenarioFile { file, text } = scenario(variant, kernel, nice);
                    let scenario = read(&file, &text).unwrap();
                    let machine = &scenario.arms[0].setting.machine;
                    assert_eq!(machine.scheduler.map(scenario::Scheduler::name), Some(kernel.scheduler));
                    assert_eq!(text.matches(&format!("nice = {nice},")).count(), 2, "{text}");
                }
            }
        }
    }

    #[test]
    fn the_programs_use_the_processors_as_in_the_thesis() {
        let worlds = TwoWorlds::new(None, NonZeroUsize::MIN);
        for (variant, clock_s, used) in [(Variant::ComputeBound, 12.61, 194.6), (Variant::IoBound, 24.26, 143.6)] {
            let ScenarioFile { file, text } = scenario(variant, KERNELS_SIMULATED[0], 0);
            let setting = read(&file, &text).unwrap().arms[0].setting.clone();
            let outcome = worlds.run(World::Sim, &setting, 1, &AtomicBool::new(false)).unwrap().outcome;
            let clock = completion(&outcome).unwrap();
            let percent = outcome.jobs[0].cpu_ns.unwrap().as_secs_f64() / clock * 100.0;
            assert!((clock / clock_s - 1.0).abs() < 0.05, "{}: {clock} s", variant.name());
            assert!((percent / used - 1.0).abs() < 0.05, "{}: {percent} %", variant.name());
        }
    }
}
