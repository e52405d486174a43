//! `--until`: the requested precision, and the limit of repetitions.

use anyhow::anyhow;
use measure::precision::{AT_MOST, StoppingRule};
use scenario::Scenario;

use crate::arguments::Run;

/// Fewer repetitions do not estimate the scatter well enough.
const FIRST_STAGE: u32 = 10;

/// The stopping rule, if the command line asks for one. The first stage replaces the scenario's
/// repetitions.
pub(crate) fn until(scenario: &mut Scenario, arguments: &Run) -> anyhow::Result<Option<StoppingRule>> {
    const MOST_RUNS: u64 = scenario::keys::MOST_RUNS;
    let Some(share) = arguments.until else { return Ok(None) };
    let repeat = &mut scenario.experiment.repeat;
    if arguments.repeat.is_none() {
        *repeat = FIRST_STAGE.max(*repeat).min(arguments.at_most.unwrap_or(u32::MAX).max(2));
    }
    let (repeat, at_most) = (*repeat, arguments.at_most.unwrap_or(AT_MOST.max(*repeat)));
    if repeat < 2 {
        return Err(anyhow!("--until: one repetition has no scatter; ask for more with --repeat, preferably 10"));
    }
    if at_most < repeat {
        return Err(anyhow!("--at-most: {at_most} repetitions are fewer than the {repeat} to begin with"));
    }
    let arms = scenario.arms.len();
    if arms as u64 * u64::from(at_most) > MOST_RUNS {
        return Err(anyhow!(
            "--at-most: {at_most} repetitions of {arms} arms are more than {MOST_RUNS} runs; allow fewer"
        ));
    }
    Ok(Some(StoppingRule { share, at_most }))
}
