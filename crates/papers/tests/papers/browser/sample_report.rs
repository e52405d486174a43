//! A report for the browser: both worlds, more lines than colours, small multiples, long tables,
//! and a title with markup. The simulator also plays the host.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use host::StateSample;
use measure::experiment;
use measure::folder::{self, Folder};
use measure::manifest::{Manifest, ScenarioFile};
use measure::states::Observer;
use measure::timestamp::Timestamp;
use measure::world::{Executed, Failure, Worlds};
use policy::JobId;
use scenario::result::World;
use scenario::{Machine, Setting, Span};

const SCENARIO: &str = r#"
title = "Two and three threads at a barrier <script>nothing()</script>, beside a crowd with a-rather-long-word-in-it-that-does-not-break"
machine = { like = "host" }

[[job]]
name = "crew"
kind = "barrier"
compute = { mean = "20 us", sd = "4 us" }
rounds = 60

[[job]]
name = "crowd"
kind = "cpu"

[experiment]
repeat = 2
compare = "job.crew.waiting"
x = "job.crowd.threads"

[experiment.sweep]
"job.crew.threads" = [2, 3]
"job.crowd.threads" = [1, 4, 9]
"job.crew.waiting" = ["always-block", "always-spin", "always-yield", "cs", "cs+", "2cs+", "5 cs", "12 us"]
"#;

struct SimulatedWorlds;

impl Worlds for SimulatedWorlds {
    fn run(&self, world: World, setting: &Setting, seed: u64, _: bool, _: &AtomicBool) -> Result<Executed, Failure> {
        let seed = if world == World::Host { seed + 1000 } else { seed };
        let mut observer = Observer::new(setting, 2);
        let outcome = sim::run_observed(&Machine::with_cpus(2), setting, seed, &mut observer)
            .map_err(|why| Failure::Failed(why.into()))?;
        let sample = |millis| StateSample { at_ns: Span::from_millis(millis), job: JobId(0), runnable: 1, sleeping: 1 };
        Ok(match world {
            World::Sim => Executed { outcome, states: observer.into_run_states(), ..Executed::default() },
            World::Host => Executed { outcome, timeline: vec![sample(0), sample(1)], ..Executed::default() },
        })
    }

    fn measure_command(&self, _: &[String], _: &AtomicBool) -> Result<Span, Failure> {
        Err(Failure::Cancelled)
    }

    fn workers(&self) -> NonZeroUsize {
        NonZeroUsize::MIN
    }
}

/// Writes the report into a folder, and returns the path of its page.
pub(crate) fn page(path: &Path) -> PathBuf {
    let scenario = scenario::read("stage.toml", SCENARIO.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
    let manifest = Manifest {
        arguments: vec!["rowlock".into(), "run".into(), "stage.toml".into()],
        scenario: Some(ScenarioFile::new("stage.toml", SCENARIO.as_bytes(), &scenario)),
        ..Manifest::begin("run", &[World::Sim, World::Host], Timestamp::of(std::time::UNIX_EPOCH))
    };
    let mut folder = Folder::create(path).unwrap();
    let cancel = AtomicBool::new(false);
    let finished =
        experiment::run(scenario, None, &SimulatedWorlds, &mut folder, manifest, &mut |_| (), &cancel).unwrap();
    assert!(finished.error.is_none(), "{:?}", finished.error);
    path.join(folder::PAGE)
}
