//! Summaries of the turns of jobs that share the cells of a machine.

use std::collections::BTreeMap;

use scenario::result::{CoschedulingOutcome, World};
use scenario::{Scenario, Span};
use serde::Serialize;

use crate::factor::{self, Factors};
use crate::sample::Sample;
use stats::Estimate;
use stats::stages::TwoStageSamples;

/// The turns in one arm and world: means over the repetitions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turns {
    /// The world.
    pub world: World,
    /// The arm.
    pub factors: Factors,
    /// The largest number of slices.
    pub slices_most: Option<Estimate>,
    /// How often a cell has switched to other jobs at a boundary.
    pub turns: Option<Estimate>,
    /// The mean time from a boundary to such a switch.
    pub delay_mean_ns: Option<Estimate>,
    /// The standard deviation of that time.
    pub delay_sd_ns: Option<Estimate>,
}

/// Summarizes the turns of all arms that have any, in the order of arms and worlds. At first,
/// `first_stage` repetitions were planned.
pub fn turns(scenario: &Scenario, samples: &[Sample], first_stage: u32) -> Vec<Turns> {
    let mut outcomes: BTreeMap<(usize, World), BTreeMap<u32, &CoschedulingOutcome>> = BTreeMap::new();
    for Sample { arm, run, .. } in samples {
        if let Some(outcome) = &run.outcome.machine.coscheduling {
            outcomes.entry((*arm, run.world)).or_default().insert(run.repeat, outcome);
        }
    }
    let summarize = |((arm, world), outcomes): ((usize, World), BTreeMap<u32, &CoschedulingOutcome>)| {
        let mean = |of: fn(&CoschedulingOutcome) -> Option<f64>| {
            let known = || outcomes.iter().filter_map(|(&repeat, outcome)| Some((repeat, of(outcome)?)));
            let first = known().filter(|&(repeat, _)| repeat < first_stage).count();
            TwoStageSamples { samples: known().map(|(_, sample)| sample).collect(), first }.mean()
        };
        Turns {
            world,
            factors: factor::of(&scenario.arms[arm]),
            slices_most: mean(|of| Some(of.slices_most.into())),
            turns: mean(|of| Some(of.turns as f64)),
            delay_mean_ns: mean(|of| of.delay_mean_ns.map(nanos)),
            delay_sd_ns: mean(|of| of.delay_sd_ns.map(nanos)),
        }
    };
    outcomes.into_iter().map(summarize).collect()
}

fn nanos(span: Span) -> f64 {
    span.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_averaged_over_repetitions_and_absent_without_cells() {
        let text = "machine.cpus = 1\njob = [{ name = 'a', kind = 'cpu', work = '1 s' }]";
        let scenario = scenario::read("a.toml", text.as_bytes()).unwrap_or_else(|bad| panic!("{bad}"));
        let sample = |repeat, turns: Option<u64>, delay| {
            let mut sample = Sample::of(World::Sim, repeat, Vec::new());
            let delay_mean_ns: Option<Span> = delay;
            sample.run.outcome.machine.coscheduling = turns.map(|turns| CoschedulingOutcome {
                slices_most: 2,
                turns,
                delay_mean_ns,
                ..CoschedulingOutcome::default()
            });
            sample
        };
        assert_eq!(turns(&scenario, &[sample(0, None, None)], u32::MAX), []);
        let delay = Some(Span::from_micros(7));
        let of = turns(&scenario, &[sample(0, Some(10), delay), sample(1, Some(30), None)], u32::MAX);
        let [of] = of.as_slice() else { panic!("{of:?}") };
        let means = [of.slices_most, of.turns, of.delay_mean_ns, of.delay_sd_ns];
        assert_eq!(means.map(|mean| mean.map(|mean| mean.mean)), [Some(2.0), Some(20.0), Some(7_000.0), None]);
        assert_eq!(of.delay_mean_ns.unwrap().samples, 1);
    }
}
