//! The judgement of a paper: what every band came to, and whether it holds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Paper;
use super::evidence::{Evidence, Measured};
use super::expected::{Band, Combine, Expected, Group, Measure};
use super::transition::Transition;
use crate::report::Report;
use crate::statistics::{self, Estimate};
use crate::summary::Factors;

/// The version of the JSON: it changes when a field changes its meaning or goes away, and stays when one is added.
pub const SCHEMA_VERSION: u32 = 1;

/// Bands are for means over at least so many seeds.
pub const FEWEST_SEEDS: u32 = 3;

/// What was found of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement<'a> {
    /// The version of this structure.
    pub schema_version: u32,
    /// The paper's name.
    pub paper: &'a str,
    /// What it shows.
    pub shows: &'a str,
    /// Where.
    pub source: &'a str,
    /// Whether all bands hold.
    pub holds: bool,
    /// The bands, in the order of the file.
    pub bands: Vec<Judged>,
    /// The transition points, where the paper is about them.
    pub transitions: Vec<TransitionOf>,
    /// The runs and what the laboratory says of them.
    pub report: &'a Report,
}

/// The transition point of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransitionOf {
    /// The arm of the run.
    pub factors: Factors,
    /// The number of its repetition, from zero.
    pub repeat: u32,
    /// Its transition point; nothing where it has none.
    pub transition: Option<Transition>,
}

/// What a band came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// What it is about.
    pub what: String,
    /// What was measured.
    pub measure: Measure,
    /// The paper's own value, in words.
    pub paper: Option<String>,
    /// Ours: the mean over the seeds. Nothing where no run has it.
    pub ours: Option<Estimate>,
    /// How far the arms that it is the mean of are from it, on average.
    pub average_absolute_deviation: Option<f64>,
    /// The band's lower end, which belongs to it.
    pub at_least: Option<f64>,
    /// The band's lower end, which does not belong to it.
    pub above: Option<f64>,
    /// The band's upper end, which belongs to it.
    pub at_most: Option<f64>,
    /// Whether ours is in the band.
    pub inside: bool,
    /// What the paper says, and where.
    pub source: String,
}

impl<'a> Judgement<'a> {
    /// Judges all bands of a paper by the runs in a report.
    pub fn new(paper: &Paper, expected: &'a Expected, evidence: &Evidence<'_>, report: &'a Report) -> Judgement<'a> {
        let bands: Vec<Judged> = expected.band.iter().map(|band| judge(evidence, band)).collect();
        let transition = |(arm, repeat, transition): (usize, u32, Option<Transition>)| TransitionOf {
            factors: evidence.factors(arm).clone(),
            repeat,
            transition,
        };
        Judgement {
            schema_version: SCHEMA_VERSION,
            paper: paper.name,
            shows: &expected.shows,
            source: &expected.source,
            holds: bands.iter().all(|band| band.inside),
            bands,
            transitions: evidence.transitions().map(transition).collect(),
            report,
        }
    }

    /// How many bands are missed.
    pub fn missed(&self) -> usize {
        self.bands.iter().filter(|band| !band.inside).count()
    }
}

fn judge(evidence: &Evidence<'_>, band: &Band) -> Judged {
    let measured = (band.measure, &band.against);
    let arms = Arms::of(evidence, &band.of, measured);
    let mut by_seed = arms.by_seed(band.combine);
    if let Some(group) = &band.minus {
        let others = Arms::of(evidence, group, measured).by_seed(band.combine);
        by_seed = by_seed.iter().filter_map(|(seed, value)| Some((*seed, value - others.get(seed)?))).collect();
    }
    let ours = statistics::mean(&by_seed.values().copied().collect::<Vec<_>>());
    let is_plain_mean = band.combine == Combine::Mean && band.minus.is_none();
    Judged {
        what: band.what.clone(),
        measure: band.measure,
        paper: band.paper.clone(),
        ours,
        average_absolute_deviation: is_plain_mean.then(|| arms.deviation()).flatten(),
        at_least: band.at_least,
        above: band.above,
        at_most: band.at_most,
        inside: ours.is_some_and(|ours| band.holds(ours.mean)),
        source: band.source.clone(),
    }
}

/// A measure in some arms, by arm and seed.
#[derive(Clone, Debug)]
pub(super) struct Arms(Vec<BTreeMap<u32, f64>>);

impl Arms {
    pub(super) fn of(evidence: &Evidence<'_>, group: &Group, measured: Measured<'_>) -> Arms {
        Arms::collect(evidence.arms(group).into_iter().map(|arm| evidence.values(arm, measured)))
    }

    pub(super) fn collect(arms: impl Iterator<Item = BTreeMap<u32, f64>>) -> Arms {
        Arms(arms.filter(|values| !values.is_empty()).collect())
    }

    fn means(&self) -> Vec<f64> {
        self.0.iter().map(|values| values.values().sum::<f64>() / values.len() as f64).collect()
    }

    /// The arms combined, seed by seed.
    fn by_seed(&self, combine: Combine) -> BTreeMap<u32, f64> {
        let means = self.means();
        let by_mean = |one: &usize, other: &usize| means[*one].total_cmp(&means[*other]);
        let chosen = match combine {
            Combine::Mean => return self.mean_by_seed(),
            Combine::Min => (0..means.len()).min_by(by_mean),
            Combine::Max => (0..means.len()).max_by(by_mean),
        };
        chosen.map(|arm| self.0[arm].clone()).unwrap_or_default()
    }

    fn mean_by_seed(&self) -> BTreeMap<u32, f64> {
        let mut values: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (seed, value) in self.0.iter().flatten() {
            values.entry(*seed).or_default().push(*value);
        }
        values.into_iter().map(|(seed, values)| (seed, values.iter().sum::<f64>() / values.len() as f64)).collect()
    }

    /// The mean over the seeds and the arms.
    pub(super) fn mean(&self) -> Option<Estimate> {
        statistics::mean(&self.mean_by_seed().into_values().collect::<Vec<_>>())
    }

    /// How far the arms are from their mean, on average. One arm has none.
    pub(super) fn deviation(&self) -> Option<f64> {
        let means = self.means();
        if means.len() < 2 {
            return None;
        }
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        let deviation = means.iter().map(|of| (of - mean).abs()).sum::<f64>() / means.len() as f64;
        Some(statistics::six_digits(deviation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms(values: &[&[f64]]) -> Arms {
        let by_seed = |values: &&[f64]| (0..).zip(values.iter().copied()).collect();
        Arms::collect(values.iter().map(by_seed))
    }

    #[test]
    fn a_mean_is_taken_over_the_arms_seed_by_seed() {
        let arms = arms(&[&[1.0, 3.0], &[5.0, 9.0], &[]]);
        assert_eq!(arms.by_seed(Combine::Mean), BTreeMap::from([(0, 3.0), (1, 6.0)]));
        assert_eq!(arms.mean().map(|estimate| (estimate.mean, estimate.samples)), Some((4.5, 2)));
        // The arms' means are 2 and 7.
        assert_eq!(arms.deviation(), Some(2.5));
    }

    #[test]
    fn the_extreme_arm_is_chosen_by_its_mean_and_not_by_a_lucky_seed() {
        let arms = arms(&[&[0.0, 9.0], &[4.0, 4.0], &[1.0, 6.0]]);
        assert_eq!(arms.by_seed(Combine::Min), BTreeMap::from([(0, 1.0), (1, 6.0)]));
        assert_eq!(arms.by_seed(Combine::Max), BTreeMap::from([(0, 0.0), (1, 9.0)]));
    }

    #[test]
    fn no_arms_have_no_mean() {
        let none = arms(&[]);
        assert!(none.mean().is_none() && none.deviation().is_none() && none.by_seed(Combine::Max).is_empty());
        assert!(arms(&[&[1.0]]).deviation().is_none());
    }
}
