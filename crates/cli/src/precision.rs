//! `--until`: the requested precision, and the limit of repetitions.

use anyhow::anyhow;
use measure::precision::{AT_MOST, StoppingRule};
use scenario::Scenario;

use crate::arguments::Run;

/// Fewer repetitions do not estimate the scatter well enough.
const FIRST_STAGE: u32 = 10;

/// The least precision to accept, in percent: less is a typing error, and no number of repetitions
/// would achieve it.
const MIN_PERCENT: f64 = 0.001;

/// Parses a share such as `2 %`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').map(|number| number.trim().parse::<f64>());
    match number {
        Some(Ok(percent)) if (MIN_PERCENT..100.0).contains(&percent) => Ok(percent / 100.0),
        Some(Ok(_)) => Err(format!("it has to be at least {MIN_PERCENT} % and less than 100 %")),
        Some(Err(_)) | None => Err("write it in percent of the mean: \"2 %\"".to_owned()),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_written_in_percent() {
        assert_eq!((share("2 %"), share("0.5%")), (Ok(0.02), Ok(0.005)));
        assert!(share("0.001 %").is_ok());
        for wrong in ["2", "", "%", "x %", "0 %", "-1 %", "1e-300 %", "100 %", "nan %", "inf %"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
