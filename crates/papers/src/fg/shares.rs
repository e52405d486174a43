//! The CPU share of a low-priority stage beside threads that compute all the time.

use std::sync::atomic::AtomicBool;

use scenario::Arm;
use scenario::result::World;
use serde::Serialize;

use super::simulated::{KERNELS_WITH_PRIORITIES, Kernel, completion, for_kernel};
use crate::ScenarioFile;
use measure::world::{Failure, Worlds};
use stats::{self, Estimate};

/// The CPU share of a stage with some nice value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The world of the run.
    pub world: World,
    /// The scheduler. `None` on the host, which has only its own.
    pub scheduler: Option<String>,
    /// The nice value of the stage. The others have 0.
    pub nice: i64,
    /// Its processor time in percent of its completion time.
    pub percent: Estimate,
}

const TEMPLATE: &str = include_str!("../../papers/fg/starvation.toml");
/// The text that is replaced by the number of computing threads.
const BUSY_THREADS: &str = "threads = 4";

/// The scenario for a kernel, with two computing threads per CPU.
pub fn scenario(kernel: Kernel, cpus: usize) -> ScenarioFile {
    let text = for_kernel(TEMPLATE, kernel).replace(BUSY_THREADS, &format!("threads = {}", 2 * cpus));
    ScenarioFile { file: format!("starvation-{}.toml", kernel.scheduler), text }
}

/// Runs the scenario on the host and on all simulated kernels.
///
/// # Errors
/// [`Failure`]: a run failed or was cancelled.
pub fn shares(
    repeat: Option<u32>,
    seed: u64,
    cpus: usize,
    worlds: &impl Worlds,
    cancel: &AtomicBool,
) -> Result<(Vec<Share>, Vec<ScenarioFile>), Failure> {
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    let host = KERNELS_WITH_PRIORITIES.last().map(|&kernel| (World::Host, kernel));
    for (world, kernel) in host.into_iter().chain(KERNELS_WITH_PRIORITIES.map(|kernel| (World::Sim, kernel))) {
        let written = scenario(kernel, cpus);
        let scenario = written.read()?;
        let repeat = repeat.unwrap_or(scenario.experiment.repeat);
        for arm in &scenario.arms {
            let share = |round: u32| share(arm, world, seed.wrapping_add(u64::from(round)), worlds, cancel);
            let shares = (0..repeat).map(share).collect::<Result<Vec<f64>, Failure>>()?;
            let scheduler = (world == World::Sim).then(|| kernel.scheduler.to_owned());
            rows.extend(stats::mean(&shares).map(|percent| Share { world, scheduler, nice: nice(arm), percent }));
        }
        if world == World::Sim {
            all.push(written);
        }
    }
    Ok((rows, all))
}

fn nice(arm: &Arm) -> i64 {
    arm.factors.first().and_then(|(_, value)| value.as_integer()).unwrap_or(0)
}

fn share(arm: &Arm, world: World, seed: u64, worlds: &impl Worlds, cancel: &AtomicBool) -> Result<f64, Failure> {
    let outcome = worlds.run(world, &arm.setting, seed, false, cancel)?.outcome;
    let cpu = outcome.jobs.first().and_then(|job| job.cpu_ns).map_or(0.0, policy::Span::as_secs_f64);
    Ok(cpu / completion(&outcome)? * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::two_worlds::TwoWorlds;
    use std::num::NonZeroUsize;

    #[test]
    fn on_simulated_kernels_a_high_nice_value_lowers_the_share_without_starvation() {
        let worlds = TwoWorlds::new(None, NonZeroUsize::MIN);
        for kernel in KERNELS_WITH_PRIORITIES {
            let mut file = scenario(kernel, 1);
            file.text = file.text.replace("like = \"host\"", "cpus = 1");
            let arms = file.read().unwrap().arms;
            let of = |arm: &Arm| share(arm, World::Sim, 1, &worlds, &AtomicBool::new(false)).unwrap();
            let shares: Vec<f64> = arms.iter().map(of).collect();
            let (first, last) = (shares[0], *shares.last().unwrap());
            assert!(
                (30.0..70.0).contains(&first) && last > 0.5 && last < first / 2.0,
                "{}: {shares:?}",
                kernel.scheduler
            );
        }
    }
}
