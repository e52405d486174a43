//! Comparisons: which completion times differ between arms that differ only in the compared factor.
//!
//! Arms are compared by the paired t-test of the logarithms of their completion times. The arms of
//! a repetition had the same random draws and form the pairs. Every arm is tested against the
//! baseline and against the fastest arm. The p-values are corrected (Holm) for all pairs of
//! compared arms in the report, not only for the tested ones: the fastest arm is chosen by the same
//! samples, so each pair could have been tested.

use std::collections::BTreeMap;

use scenario::result::World;

use crate::factor;
use crate::sample::JobQuantity;
use crate::series::AllSeries;
use stats::{SIGNIFICANCE_LEVEL, many};

/// The result of one test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The probability of a difference at least this large if there were none.
    pub p: f64,
    /// The same, corrected for all comparisons of the report.
    pub corrected_p: f64,
}

impl Comparison {
    /// Whether the two arms differ significantly, after the correction.
    pub fn is_significant(&self) -> bool {
        self.corrected_p < SIGNIFICANCE_LEVEL
    }
}

/// All comparisons of a report.
#[derive(Clone, Debug, Default)]
pub struct Comparisons {
    tests: BTreeMap<(usize, World, usize, usize), Comparison>,
    /// The number of pairs for which p is corrected.
    pub pairs: usize,
}

impl Comparisons {
    /// Computes them. There are none if the scenario compares no factor.
    pub fn new(all: &AllSeries<'_>) -> Comparisons {
        let scenario = all.scenario;
        let jobs = scenario.arms.first().map_or(0, |arm| arm.setting.jobs.len());
        let groups = factor::comparison_groups(scenario);
        let (mut tested, mut pairs) = (BTreeMap::new(), 0);
        for (job, group) in (0..jobs).flat_map(|job| groups.iter().map(move |group| (job, group))) {
            for world in [World::Sim, World::Host] {
                let timed = timed(all, group, job, world);
                pairs += timed.len() * timed.len().saturating_sub(1) / 2;
                let fastest = timed.iter().min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|&(arm, _)| arm);
                for of in [Some(group[0]), fastest].into_iter().flatten() {
                    for &(arm, _) in timed.iter().filter(|&&(arm, _)| arm != of) {
                        let series = all.get(of, job, world).zip(all.get(arm, job, world));
                        let test = series.and_then(|(of, it)| of.log_ratios(it, JobQuantity::Completion).test());
                        tested.extend(test.map(|test| ((job, world, of.min(arm), of.max(arm)), test.p)));
                    }
                }
            }
        }
        let corrected = many::holm_among(pairs, &tested.values().copied().collect::<Vec<_>>());
        let tests = tested.into_iter().zip(corrected);
        Comparisons { tests: tests.map(|((of, p), corrected_p)| (of, Comparison { p, corrected_p })).collect(), pairs }
    }

    /// The comparison of two arms in either order. `None` if not made, or with one repetition.
    pub fn get(&self, job: usize, world: World, one: usize, other: usize) -> Option<Comparison> {
        self.tests.get(&(job, world, one.min(other), one.max(other))).copied()
    }
}

/// The arms of a group in which a job has completion times, with their means.
pub fn timed(all: &AllSeries<'_>, group: &[usize], job: usize, world: World) -> Vec<(usize, f64)> {
    let mean = |&arm: &usize| {
        let times = all.get(arm, job, world)?.values(JobQuantity::Completion);
        Some((arm, stats::mean(&times)?.mean))
    };
    group.iter().filter_map(mean).collect()
}
