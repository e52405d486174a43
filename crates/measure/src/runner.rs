//! Executes a plan and records each sample as it comes. This is the only step that takes time and
//! can fail; the results are computed from its samples.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use scenario::result::{Run, World};
use scenario::{JobKind, Scenario, Span};

use crate::factor;
use crate::plan::{Plan, Step, StepKey};
use crate::recorder::Recorder;
use crate::sample::Sample;
use crate::states::{self, RunStates};
use crate::workers;
use crate::world::{Executed, Failure, Worlds};
use report::words;

/// The next step of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress<'a> {
    /// A command runs alone to measure its CPU time.
    Command(&'a [String]),
    /// A run on the host that does not count.
    WarmUp,
    /// A run.
    Run {
        /// The run.
        step: Step,
        /// The number of runs before it.
        done: u64,
        /// The number of all runs.
        of: u64,
    },
}

/// Why an experiment ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A command could not be measured.
    #[error("command `{command}`, run alone to measure its CPU time: {source}")]
    Command {
        /// The command line.
        command: String,
        /// Why.
        source: Failure,
    },
    /// A run failed.
    #[error("{} world, repetition {}{}: {source}", .step.world.name(), .step.repeat, under(.arm))]
    Run {
        /// The run.
        step: Step,
        /// Its arm in words. Empty if there is only one.
        arm: String,
        /// Why.
        source: Failure,
    },
}

impl RunnerError {
    /// Whether it was interrupted.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, RunnerError::Command { source, .. } | RunnerError::Run { source, .. } if matches!(source, Failure::Cancelled))
    }

    /// Whether the request is impossible, as opposed to a run that failed.
    pub fn is_input(&self) -> bool {
        matches!(self, RunnerError::Command { source, .. } | RunnerError::Run { source, .. } if matches!(source, Failure::Input(_)))
    }
}

fn under(arm: &str) -> String {
    if arm.is_empty() { String::new() } else { format!(", {arm}") }
}

/// A command whose CPU time was measured for the simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct StandIn {
    /// The job's name.
    pub job: String,
    /// Its CPU time.
    pub work: Span,
}

/// Runs every distinct command without a known CPU time alone, once, and writes its CPU time into
/// the scenario. Returns the affected jobs.
pub fn measure_commands(
    scenario: &mut Scenario,
    worlds: &impl Worlds,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &AtomicBool,
) -> Result<Vec<StandIn>, RunnerError> {
    let mut measured: Vec<(Vec<String>, Span)> = Vec::new();
    let mut stand_ins = Vec::new();
    for job in scenario.arms.iter_mut().flat_map(|arm| &mut arm.setting.jobs) {
        let JobKind::Command { argv, work: work @ None, .. } = &mut job.kind else { continue };
        let taken = match measured.iter().find(|(known, _)| known == argv) {
            Some(&(_, taken)) => taken,
            None => {
                progress(Progress::Command(argv));
                let result = unless_cancelled(cancel, || worlds.measure_command(argv, cancel));
                let taken = result.map_err(|source| RunnerError::Command { command: argv.join(" "), source })?;
                measured.push((argv.clone(), taken));
                taken
            }
        };
        *work = Some(taken);
        let stand_in = StandIn { job: job.name.clone(), work: taken };
        if !stand_ins.contains(&stand_in) {
            stand_ins.push(stand_in);
        }
    }
    Ok(stand_ins)
}

/// Executes the plan and returns the samples in its order, and the error if it ended early.
///
/// If the host takes part, runs follow one another, and each sample is in the folder before the
/// next run begins. Simulations do not disturb each other: up to [`Worlds::workers`] run at a time,
/// and a sample is in the folder as soon as it and all earlier ones are complete. The samples are
/// the same either way, up to the first failure. After an interruption there are all complete
/// samples.
pub fn measure(
    scenario: &Scenario,
    plan: &Plan,
    worlds: &impl Worlds,
    recorder: &mut Recorder<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
    cancel: &AtomicBool,
) -> (Vec<Sample>, Option<RunnerError>) {
    let shown = states::shown_arms(scenario);
    let is_shown = |step: Step| step.repeat == 0 && shown.contains(&step.arm);
    let execute = |step: Step| -> Result<Executed, RunnerError> {
        let Step { world, seed, .. } = step;
        let arm = &scenario.arms[step.arm];
        let result = unless_cancelled(cancel, || worlds.run(world, &arm.setting, seed, is_shown(step), cancel));
        result.map_err(|source| RunnerError::Run {
            step,
            arm: words::factors(arm.factors.iter().map(|(path, value)| (path, value))),
            source,
        })
    };
    let mut samples = Vec::new();
    let mut earlier = BTreeMap::new();
    for (step, run) in recorder.take_earlier(plan.steps()) {
        let states = match step.world {
            _ if !is_shown(step) => RunStates::default(),
            World::Sim => worlds.states_of_simulation(&scenario.arms[step.arm].setting, step.seed, cancel),
            World::Host => states::states_from_host_samples(&recorder.earlier_timeline(&run), &run.outcome),
        };
        earlier.insert(step.key(), Sample { arm: step.arm, run, states });
    }
    let missing: Vec<Step> = plan.steps().filter(|step| !earlier.contains_key(&step.key())).collect();
    if let Some(step) = plan.warm_up().filter(|_| missing.iter().any(|step| step.world == World::Host)) {
        progress(Progress::WarmUp);
        if let Err(error) = execute(step) {
            return (samples, Some(error));
        }
    }
    let keep = |step: Step, Executed { outcome, timeline, mut states, disturbance }| {
        let Step { world, arm, repeat, seed } = step;
        if states.is_empty() && is_shown(step) {
            states = states::states_from_host_samples(&timeline, &outcome);
        }
        let factors = factor::of(&scenario.arms[arm]);
        let sample = Sample { arm, run: Run { world, factors, repeat, seed, outcome }, states };
        recorder.keep(&sample.run, &timeline, disturbance);
        sample
    };
    let workers = if plan.is_simulated() { worlds.workers() } else { NonZeroUsize::MIN };
    let error = workers::in_order(until_cancelled(missing, cancel), workers, execute, |results| {
        collect(plan, &mut earlier, results, keep, &mut samples, progress)
    });
    (samples, error)
}

/// Collects the results of the plan's steps in its order. Steps with an earlier run have no result.
fn collect(
    plan: &Plan,
    earlier: &mut BTreeMap<StepKey, Sample>,
    results: &mut dyn Iterator<Item = Result<Executed, RunnerError>>,
    mut keep: impl FnMut(Step, Executed) -> Sample,
    samples: &mut Vec<Sample>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Option<RunnerError> {
    let mut interrupted = None;
    for (done, step) in (plan.made()..).zip(plan.steps()) {
        if let Some(sample) = earlier.remove(&step.key()) {
            samples.push(sample);
            continue;
        }
        if interrupted.is_none() {
            progress(Progress::Run { step, done, of: plan.runs() });
        }
        // Later steps may have an earlier run.
        let Some(result) = results.next() else { continue };
        match result.map(|executed| keep(step, executed)) {
            Ok(sample) => samples.push(sample),
            // No more runs begin, but later ones may already have been complete.
            Err(error) if error.is_cancelled() => interrupted = interrupted.or(Some(error)),
            Err(error) => return interrupted.or(Some(error)),
        }
    }
    interrupted
}

/// The steps until a cancellation, and the one that notices it.
fn until_cancelled(steps: Vec<Step>, cancel: &AtomicBool) -> impl Iterator<Item = Step> {
    let mut is_over = false;
    steps.into_iter().take_while(move |_| !std::mem::replace(&mut is_over, cancel.load(Ordering::Relaxed)))
}

/// Does `work` unless cancelled. A failure after the cancellation counts as cancelled.
fn unless_cancelled<T>(cancel: &AtomicBool, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    if cancel.load(Ordering::Relaxed) {
        return Err(Failure::Cancelled);
    }
    work().map_err(|failure| if cancel.load(Ordering::Relaxed) { Failure::Cancelled } else { failure })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: &str = r#"
        machine.cpus = 2
        job = [{ name = "solo", kind = "cpu", work = "1 ms" }]
        experiment.repeat = 4
    "#;

    #[test]
    fn runs_that_were_complete_when_an_earlier_one_was_interrupted_are_kept() {
        let scenario = scenario::read("four.toml", FOUR.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
        let plan = Plan::new(&scenario, &[World::Sim]);
        let steps: Vec<Step> = plan.steps().collect();
        let cancelled =
            |step: usize| RunnerError::Run { step: steps[step], arm: String::new(), source: Failure::Cancelled };
        let done = || Ok(Executed::default());
        let mut results = [done(), Err(cancelled(1)), done(), Err(cancelled(3))].into_iter();
        let keep = |Step { world, repeat, .. }, _| Sample::of(world, repeat, Vec::new());
        let (mut samples, mut told) = (Vec::new(), 0);
        let error = collect(&plan, &mut BTreeMap::new(), &mut results, keep, &mut samples, &mut |_| told += 1);
        assert_eq!(samples.iter().map(|sample| sample.run.repeat).collect::<Vec<_>>(), [0, 2]);
        assert!(matches!(error, Some(RunnerError::Run { step, .. }) if step.repeat == 1), "{error:?}");
        // Runs after the interruption are not announced.
        assert_eq!(told, 2);
    }

    #[test]
    fn after_an_interruption_one_more_step_begins_and_earlier_runs_of_later_steps_are_kept() {
        let scenario = scenario::read("four.toml", FOUR.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
        let plan = Plan::new(&scenario, &[World::Sim]);
        let steps: Vec<Step> = plan.steps().collect();
        let cancel = AtomicBool::new(false);
        let mut begun = until_cancelled(steps[..3].to_vec(), &cancel);
        assert_eq!(begun.next(), Some(steps[0]));
        cancel.store(true, Ordering::Relaxed);
        assert_eq!([begun.next(), begun.next(), begun.next()], [Some(steps[1]), None, None]);

        let sample = |step: Step| Sample::of(step.world, step.repeat, Vec::new());
        let mut earlier = BTreeMap::from([(steps[3].key(), sample(steps[3]))]);
        let cancelled = RunnerError::Run { step: steps[1], arm: String::new(), source: Failure::Cancelled };
        let mut results = [Ok(Executed::default()), Err(cancelled)].into_iter();
        let mut samples = Vec::new();
        let error = collect(&plan, &mut earlier, &mut results, |step, _| sample(step), &mut samples, &mut |_| ());
        assert!(error.is_some_and(|error| error.is_cancelled()));
        assert_eq!(samples.iter().map(|sample| sample.run.repeat).collect::<Vec<_>>(), [0, 3]);
    }
}
