//! Worlds without a clock: the outcome of a run follows from its setting, its world and its seed.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use measure::experiment::{self, FinishedExperiment};
use measure::folder::{self, Folder};
use measure::manifest::{Manifest, ScenarioFile};
use measure::precision::StoppingRule;
use measure::states::{JobStates, RunStates};
use measure::timestamp::Timestamp;
use measure::world::{Executed, Failure, Worlds};
use scenario::result::{
    CoschedulingOutcome, FibersOutcome, GroupOutcome, JobOutcome, MachineOutcome, Outcome, Percentiles, StageOutcome,
    SwitchTimes, World,
};
use scenario::{JobKind, Scenario, Setting, Span};

pub(crate) const BOTH: &[World] = &[World::Sim, World::Host];

/// Two threads at a barrier beside others that compute: three waiting rules and two loads.
pub(crate) const CREW: &str = r#"
title = "A crew against a crowd"
machine = { like = "host" }

[[job]]
name = "crew"
kind = "barrier"
threads = 2
compute = "50 us"
rounds = 1000
waiting = "cs"

[[job]]
name = "crowd"
kind = "cpu"
threads = 1

[experiment]
repeat = 3
seed = 40
compare = "job.crew.waiting"
sweep = { "job.crowd.threads" = [1, 2], "job.crew.waiting" = ["always-block", "cs", "always-spin"] }
"#;

pub(crate) fn read(text: &str) -> Scenario {
    scenario::read("mock.toml", text.as_bytes()).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// The worlds of an experiment, and when to stop.
pub(crate) type Extent<'a> = (&'a [World], Option<StoppingRule>);

/// The event instead of a call. Calls are counted from zero.
#[derive(Clone, Copy)]
pub(crate) enum Fault<'a> {
    None,
    Cancel(usize),
    Fail(usize),
    /// Every call with this text fails.
    FailAt(&'a str),
}

/// Worlds that record their calls.
pub(crate) struct Mock<'a> {
    pub(crate) calls: Mutex<Vec<String>>,
    pub(crate) fault: Fault<'a>,
    pub(crate) cancel: AtomicBool,
    /// Called before each call.
    pub(crate) before_call: &'a (dyn Fn() + Sync),
    /// The timeline of the host's runs, as JSON.
    pub(crate) timeline: &'a str,
    /// Whether simulated runs can be watched.
    pub(crate) has_states: bool,
    pub(crate) workers: usize,
}

impl Mock<'_> {
    pub(crate) fn new() -> Mock<'static> {
        let (calls, cancel) = (Mutex::default(), AtomicBool::new(false));
        Mock { calls, fault: Fault::None, cancel, before_call: &|| (), timeline: "[]", has_states: false, workers: 1 }
    }

    /// States that depend on the seed.
    fn simulated_states(&self, seed: u64) -> RunStates {
        let job = JobStates { job: "crew".to_owned(), threads: seed as u32, ..JobStates::default() };
        RunStates { jobs: if self.has_states { vec![job] } else { Vec::new() }, load: None }
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    /// Runs an experiment in a folder.
    pub(crate) fn experiment(&self, scenario: Scenario, chosen: &[World], folder: &Path) -> FinishedExperiment {
        self.experiment_of(scenario, (chosen, None), folder)
    }

    pub(crate) fn experiment_of(&self, scenario: Scenario, extent: Extent<'_>, folder: &Path) -> FinishedExperiment {
        self.experiment_in(scenario, extent, &mut Folder::create(folder).unwrap()).unwrap()
    }

    /// Runs an experiment in a folder that may have an earlier one.
    pub(crate) fn experiment_in(
        &self,
        scenario: Scenario,
        (chosen, until): Extent<'_>,
        folder: &mut Folder,
    ) -> Result<FinishedExperiment, folder::FolderError> {
        let manifest = Manifest {
            arguments: vec!["rowlock".into(), "run".into(), "mock.toml".into()],
            scenario: Some(ScenarioFile::new("mock.toml", CREW.as_bytes(), &scenario)),
            ..Manifest::begin("run", chosen, Timestamp::of(std::time::UNIX_EPOCH))
        };
        experiment::run(scenario, until, self, folder, manifest, &mut |_| (), &self.cancel)
    }

    fn called(&self, call: String) -> Result<(), Failure> {
        (self.before_call)();
        let number = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(call.clone());
            calls.len() - 1
        };
        match self.fault {
            Fault::Cancel(at) if at == number => {
                self.cancel.store(true, Ordering::Relaxed);
                // A world that is being stopped may first fail in another way.
                Err(Failure::Failed("its child was killed".into()))
            }
            Fault::FailAt(at) if call == at => Err(Failure::Failed("the oar broke".into())),
            Fault::Fail(at) if at == number => Err(Failure::Failed("the oar broke".into())),
            _ => Ok(()),
        }
    }
}

impl Worlds for Mock<'_> {
    fn run(
        &self,
        world: World,
        setting: &Setting,
        seed: u64,
        is_watched: bool,
        _: &AtomicBool,
    ) -> Result<Executed, Failure> {
        let words: Vec<String> = setting.jobs.iter().map(|job| words(&job.kind)).collect();
        self.called(format!("{} {} seed {seed}", world.name(), words.join(" ")))?;
        let timeline = if world == World::Host { self.timeline } else { "[]" };
        let timeline = serde_json::from_str(timeline).unwrap();
        let is_simulated = is_watched && world == World::Sim;
        let states = if is_simulated { self.simulated_states(seed) } else { RunStates::default() };
        Ok(Executed { outcome: outcome(world, setting, seed), timeline, states, ..Executed::default() })
    }

    /// Not counted as a call.
    fn states_of_simulation(&self, _: &Setting, seed: u64, _: &AtomicBool) -> RunStates {
        self.simulated_states(seed)
    }

    fn measure_command(&self, argv: &[String], _: &AtomicBool) -> Result<Span, Failure> {
        self.called(format!("alone {}", argv.join(" ")))?;
        Ok(Span::from_millis(812))
    }

    fn workers(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.workers).unwrap()
    }
}

fn words(kind: &JobKind) -> String {
    match kind {
        JobKind::Barrier { waiting, .. } | JobKind::Lock { waiting, .. } => waiting.to_string(),
        JobKind::Message(message) => message.waiting.to_string(),
        JobKind::Cpu { threads, .. } => threads.to_string(),
        JobKind::Command { work, .. } => work.map_or("unknown".to_owned(), |work| work.to_string()),
        JobKind::Pipeline(pipeline) => pipeline.priority.to_string(),
        JobKind::Fibers(fibers) => fibers.rules.levels.to_string(),
    }
}

fn outcome(world: World, setting: &Setting, seed: u64) -> Outcome {
    let crowd: u64 =
        setting.jobs.iter().filter(|job| job.kind.is_endless()).map(|job| u64::from(job.kind.threads(1))).sum();
    // Noise that both worlds share, and noise of the host.
    let noise = (seed % 7) * 300 + if world == World::Host { seed % 3 * 900 + 4_000 } else { 0 };
    let job = |(job, kind): (String, &scenario::Job)| match &kind.kind {
        JobKind::Barrier { rounds, waiting, .. } | JobKind::Lock { rounds, waiting, .. } => {
            let (share, ssr) = match waiting.to_string().as_str() {
                "always-block" => (300, None),
                "always-spin" => (100 + 150 * crowd, Some(100.0)),
                _ => (180, Some(74.0 + (seed % 5) as f64 / 2.0)),
            };
            let completion = share * (crowd + 1) * 1_000 + noise;
            JobOutcome {
                job,
                completion_ns: Some(Span::from_micros(completion)),
                rounds: Some(*rounds),
                ssr_percent: ssr,
                cpu_ns: Some(Span::from_micros(completion * 2 / (crowd + 1))),
                spin_ns: Some(Span::from_micros(share * 100)),
                delivered_work_ns: Some(Span::from_millis(100)),
                voluntary_switches: Some(1_000 * (share % 7) + seed),
                involuntary_switches: Some(crowd * 25),
                ..JobOutcome::default()
            }
        }
        JobKind::Pipeline(pipeline) => {
            let stage = |stage: &scenario::pipeline::Stage| StageOutcome {
                stage: stage.name.clone(),
                refused: vec!["nice=-5: no".into()],
                ..StageOutcome::default()
            };
            JobOutcome { job, stages: pipeline.stages.iter().map(stage).collect(), ..JobOutcome::default() }
        }
        JobKind::Fibers(fibers) => {
            let of = |group: &scenario::fibers::FiberGroup| {
                let micros = if world == World::Host { 20 } else { 10 } * u64::from(fibers.rules.levels);
                let mut responses: Vec<Span> = (1..=100).map(|n| Span::from_micros(n * micros + seed % 3)).collect();
                GroupOutcome::new(group.name.clone(), &mut responses)
            };
            let groups = fibers.groups.iter().map(of).collect();
            let fibers = FibersOutcome { switches: Some(3), demotions: Some(seed), groups };
            JobOutcome { job, fibers: Some(Box::new(fibers)), ..JobOutcome::default() }
        }
        JobKind::Message(_) => JobOutcome { job, start_ns: Some(Span::from_micros(6 + seed)), ..JobOutcome::default() },
        JobKind::Cpu { .. } | JobKind::Command { .. } => JobOutcome {
            job,
            cpu_ns: Some(Span::from_micros(crowd * 200_000 + noise)),
            delivered_work_ns: Some(Span::from_micros(crowd * 200_000)),
            voluntary_switches: Some(1),
            involuntary_switches: Some(100),
            ..JobOutcome::default()
        },
    };
    let has_messages = setting.jobs.iter().any(|job| matches!(job.kind, JobKind::Message(_)));
    let delay = Some(Span::from_micros(seed));
    let times = Percentiles { p50_ns: delay, p90_ns: delay };
    let turns = CoschedulingOutcome {
        slices_most: 2,
        turns: seed,
        delay_mean_ns: delay,
        delay_sd_ns: delay,
        switches: (world == World::Host).then_some(SwitchTimes { lateness: times, duration: times, skew: times }),
    };
    let machine = MachineOutcome {
        cpus: 2,
        scheduler: "eevdf".into(),
        work_percent: Some(87.5),
        spin_percent: Some(10.0),
        switch_percent: (world == World::Sim).then_some(1.5),
        idle_percent: Some(1.0),
        events: (world == World::Sim).then_some(123_456),
        coscheduling: has_messages.then_some(turns),
    };
    Outcome { jobs: setting.jobs_with_copies().map(job).collect(), machine }
}
