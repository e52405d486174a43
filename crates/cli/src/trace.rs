//! `rowlock run --trace`: runs the first arm again in each world and records a trace.

use std::path::Path;

use measure::two_worlds::TwoWorlds;
use measure::world::Failure;
use scenario::Scenario;
use scenario::result::World;
use trace::file::{TraceFile, path_for};

use crate::output::{print_message, print_notes};
use crate::signals::Signals;
use crate::stop::{OrStop, Stop};

/// The requested traces. Dropping them leaves no files behind.
pub(crate) struct Traces(Vec<(World, TraceFile)>);

impl Traces {
    /// Checks before any run that the traces can be written.
    pub(crate) fn create(
        path: Option<&Path>,
        scenario: &Scenario,
        chosen: &[World],
        worlds: &TwoWorlds,
    ) -> Result<Traces, Stop> {
        let Some((path, arm)) = path.zip(scenario.arms.first()) else { return Ok(Traces(Vec::new())) };
        let create = |&world| {
            worlds.check_trace(world, &arm.setting)?;
            let file = TraceFile::create(&path_for(path, world, chosen)).or_input()?;
            Ok((world, file))
        };
        chosen.iter().map(create).collect::<Result<_, Stop>>().map(Traces)
    }

    /// Runs the first arm again in each world, with the seed of the first repetition, and writes
    /// its trace.
    pub(crate) fn record(self, scenario: &Scenario, worlds: &TwoWorlds, signals: &Signals) -> Result<(), Stop> {
        let Some(arm) = scenario.arms.first() else { return Ok(()) };
        for (world, file) in self.0 {
            let path = file.path().display().to_string();
            let made = worlds.trace(world, &arm.setting, scenario.experiment.seed, file, signals.cancel());
            if matches!(made, Err(Failure::Cancelled)) {
                print_message(format_args!("interrupted: there is no trace {path}"));
            }
            let lost = made.map_err(|failure| signals.stop_for(failure))?;
            print_message(format_args!("the trace of {} is in {path}", description(scenario, world)));
            if lost > 0 {
                let note = format!("{path} ends early for some threads: {lost} of their events had no room");
                print_notes(&[note]);
            }
        }
        Ok(())
    }
}

/// A description of the traced run.
fn description(scenario: &Scenario, world: World) -> String {
    let run = format!("one more run in the {} world, seed {}", world.name(), scenario.experiment.seed);
    let arm =
        scenario.arms.first().map(|arm| report::words::factors(arm.factors.iter().map(|(path, value)| (path, value))));
    match arm.filter(|arm| !arm.is_empty()) {
        Some(arm) => format!("{run}, of the first arm, {arm},"),
        None => run,
    }
}
