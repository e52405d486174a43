//! All that came out of one of the experiments.

use serde::Serialize;

use super::Experiment;
use super::claims::{self, ClaimVerdict};
use super::order::Program;
use super::runs::Observation;
use super::simulated::SimulatedRow;
use super::table::{self, ResponseRow, SpeedupRow, TimeRow};

/// What was run, on what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// The version of rowlock.
    pub rowlock_version: String,
    /// The machine.
    pub machine: host::Machine,
    /// How many threads the study's program had, in turn.
    pub threads: Vec<u32>,
    /// Whether fibers were preemptible.
    pub preemptible: bool,
    /// How often each was run.
    pub repeat: u32,
    /// The seed of the order of the runs.
    pub seed: u64,
    /// How many rounds of the loop that stands for work take a microsecond; nothing where no program has work.
    pub rounds_per_us: Option<f64>,
}

/// What came out. What an experiment is not about is empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The experiment.
    pub paper: &'static str,
    /// Where in the study that is.
    pub source: &'static str,
    /// What the study says there.
    pub shows: &'static str,
    /// Whether all was run that was asked for.
    pub complete: bool,
    /// What was run, on what.
    pub settings: Settings,
    /// The study's program.
    pub rows: Vec<TimeRow>,
    /// How many times as fast fibers are.
    pub factors: Vec<SpeedupRow>,
    /// The other programs.
    pub responses: Vec<ResponseRow>,
    /// The same in the simulator, which knows no first runs.
    pub simulated: Vec<SimulatedRow>,
    /// The study's claims.
    pub verdicts: Vec<ClaimVerdict>,
    /// What one should know before one believes the rest.
    pub notes: Vec<String>,
}

impl Report {
    /// What some runs come to; nothing is simulated yet.
    pub fn new(
        experiment: &Experiment,
        settings: Settings,
        runs: &[Observation],
        complete: bool,
        notes: Vec<String>,
    ) -> Report {
        let (arms, threads) = (experiment.arms(settings.preemptible), &settings.threads);
        let study = experiment.programs().contains(&Program::Study);
        let systems = experiment.subject == super::Subject::Systems;
        Report {
            paper: experiment.name,
            source: experiment.source,
            shows: experiment.shows,
            complete,
            rows: if study { table::rows(runs, threads, &arms) } else { Vec::new() },
            factors: if systems { table::factors(runs, threads, &arms) } else { Vec::new() },
            responses: if study { Vec::new() } else { table::responses(runs, experiment.programs(), &arms) },
            simulated: Vec::new(),
            verdicts: if study && !systems { claims::verdicts(runs, threads) } else { Vec::new() },
            settings,
            notes,
        }
    }
}
