//! The programs in the simulator: each as a scenario of one job of fibers, with the same
//! configurations.

use std::sync::atomic::AtomicBool;

use scenario::result::{Outcome, World};
use serde::Serialize;

use super::Experiment;
use super::arms::{Arm, Configuration};
use super::measurement::Responses;
use super::programs::Program;
use crate::ScenarioFile;
use measure::world::{Failure, Worlds};

/// A simulated program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedRow {
    /// The program.
    pub program: Program,
    /// The number of threads of the study's program. 0 for other programs.
    pub threads: u32,
    /// The name of the arm.
    pub arm: String,
    /// The total time, in microseconds.
    pub total_us: f64,
    /// How often a fiber used up its running time and lost a level.
    pub demotions: Option<u64>,
    /// The response times in microseconds, if the program responds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<Responses>,
}

impl SimulatedRow {
    /// The total time and the response times, in the order of [`TIMES`](super::table::TIMES).
    pub(crate) fn times(&self) -> [Option<f64>; 5] {
        let [p50, p95, p99, worst] = self.responses.map_or([None; 4], |times| times.all().map(Some));
        [Some(self.total_us), p50, p95, p99, worst]
    }
}

/// Simulates every program of an experiment with each of its configurations.
///
/// # Errors
/// [`Failure`]: a simulation failed or was cancelled.
pub fn simulate(
    experiment: Experiment,
    threads: &[u32],
    preemptible: bool,
    worlds: &impl Worlds,
    cancel: &AtomicBool,
) -> Result<(Vec<SimulatedRow>, Vec<ScenarioFile>), Failure> {
    let arms = experiment.arms(preemptible).into_iter().filter(|arm| !arm.is_of_the_kernel());
    let (arms, configurations): (Vec<Arm>, Vec<Configuration>) =
        arms.filter_map(|arm| Some((arm, arm.configuration?))).unzip();
    let (mut rows, mut written) = (Vec::new(), Vec::new());
    for &program in experiment.programs() {
        let numbers = if program == Program::Study { threads } else { &[0] };
        let of_it = scenario(program, numbers, &configurations, preemptible);
        let settings = of_it.read()?.arms;
        let cells = numbers.iter().flat_map(|threads| arms.iter().map(move |arm| (*threads, *arm)));
        for (of, (threads, arm)) in settings.iter().zip(cells) {
            let outcome = worlds.run(World::Sim, &of.setting, 1, false, cancel)?.outcome;
            rows.extend(row(program, threads, arm, &outcome));
        }
        written.push(of_it);
    }
    Ok((rows, written))
}

/// The scenario of a program, with a sweep over the configurations and, for the study's program,
/// over the numbers of threads.
fn scenario(program: Program, threads: &[u32], configurations: &[Configuration], preemptible: bool) -> ScenarioFile {
    let template = match program {
        Program::Study => include_str!("../../papers/threads/study.toml"),
        Program::Yields => include_str!("../../papers/threads/yields.toml"),
        Program::Locks => include_str!("../../papers/threads/locks.toml"),
        Program::Mixed => include_str!("../../papers/threads/mixed.toml"),
    };
    let name = program.name();
    let fibers = match program {
        Program::Study => format!("\"job.{name}.groups.all.fibers\" = {threads:?}\n"),
        Program::Yields | Program::Locks | Program::Mixed => String::new(),
    };
    let pairs: Vec<String> =
        configurations.iter().map(|of| format!("[{}, \"{} us\"]", of.levels, of.running_time_us)).collect();
    let both = format!("\"job.{name}.levels, job.{name}.running_time\" = [{}]\n", pairs.join(", "));
    let kind = "kind = \"fibers\"\n";
    let job = if preemptible { format!("{kind}preemptible = true\n") } else { kind.to_owned() };
    let template = template.replace(kind, &job);
    ScenarioFile { file: format!("{name}.toml"), text: format!("{template}\n[experiment.sweep]\n{fibers}{both}") }
}

fn row(program: Program, threads: u32, arm: Arm, outcome: &Outcome) -> Option<SimulatedRow> {
    let job = outcome.jobs.first()?;
    let fibers = job.fibers.as_ref();
    let us = |span: policy::Span| span.as_secs_f64() * 1e6;
    let responses = || {
        // The first group is the one that responds.
        let of = fibers?.groups.first()?;
        Some(Responses {
            p50: us(of.response_p50_ns?),
            p95: us(of.response_p95_ns?),
            p99: us(of.response_p99_ns?),
            worst: us(of.response_worst_ns?),
        })
    };
    Some(SimulatedRow {
        program,
        threads,
        arm: arm.name(),
        total_us: us(job.completion_ns?),
        demotions: fibers.and_then(|fibers| fibers.demotions),
        responses: if program == Program::Study { None } else { responses() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::arms::CONFIGURATIONS;
    use measure::two_worlds::TwoWorlds;
    use std::num::NonZeroUsize;

    #[test]
    fn every_experiment_is_simulated_completely() {
        let worlds = TwoWorlds::new(None, NonZeroUsize::MIN);
        for experiment in [Experiment::Systems, Experiment::Configurations, Experiment::Workloads] {
            let threads = if experiment.threads().is_empty() { vec![] } else { vec![50, 100] };
            let (rows, written) = simulate(experiment, &threads, false, &worlds, &AtomicBool::new(false)).unwrap();
            let configurations = experiment.arms(false).iter().filter(|arm| arm.configuration.is_some()).count();
            let cells = if threads.is_empty() { experiment.programs().len() } else { threads.len() };
            assert_eq!((rows.len(), written.len()), (configurations * cells, experiment.programs().len()));
            assert!(
                rows.iter().all(|row| row.total_us > 0.0 && row.responses.is_some() == threads.is_empty()),
                "{rows:?}"
            );
        }
    }

    #[test]
    fn levels_matter_to_other_programs_but_not_to_the_studys() {
        let worlds = TwoWorlds::new(None, NonZeroUsize::MIN);
        let rows = |experiment, threads: &[u32]| {
            simulate(experiment, threads, false, &worlds, &AtomicBool::new(false)).unwrap().0
        };
        let study = rows(Experiment::Configurations, &[1000, 2000]);
        let (few, many) = study.split_at(CONFIGURATIONS.len());
        assert!(few.iter().all(|row| row.demotions == Some(0) && row.total_us == few[0].total_us), "{few:?}");
        // The first fiber takes more than 50 us to spawn so many others and is demoted, with any
        // number of levels.
        for (number, row) in many.iter().enumerate() {
            assert_eq!((row.demotions, row.total_us), (many[number % 3].demotions, many[number % 3].total_us));
            assert_eq!(row.demotions > Some(0), CONFIGURATIONS[number].running_time_us == 50, "{row:?}");
        }
        let mixed: Vec<SimulatedRow> =
            rows(Experiment::Workloads, &[]).into_iter().filter(|row| row.program == Program::Mixed).collect();
        assert!(mixed.iter().all(|row| row.demotions > Some(0)), "{mixed:?}");
        assert!(mixed.iter().any(|row| row.responses != mixed[0].responses), "{mixed:?}");
    }

    #[test]
    fn preemptible_fibers_respond_sooner_beside_others_that_compute() {
        let worlds = TwoWorlds::new(None, NonZeroUsize::MIN);
        let p50 = |preemptible| {
            let cancel = AtomicBool::new(false);
            let (rows, written) = simulate(Experiment::Workloads, &[], preemptible, &worlds, &cancel).unwrap();
            assert!(written.iter().all(|of| of.text.contains("preemptible = true") == preemptible));
            assert!(rows.iter().all(|row| row.arm.starts_with(if preemptible { "preemptible " } else { "fibers " })));
            let mixed = rows.into_iter().filter(|row| row.program == Program::Mixed);
            // Nothing else differs: a computing fiber yields immediately instead of at its next
            // checkpoint.
            mixed.map(|row| row.responses.unwrap().p50).sum::<f64>()
        };
        assert!(p50(true) < p50(false));
    }
}
