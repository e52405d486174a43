//! The judgement of a paper: the result of every band, and whether all bands hold.

use serde::Serialize;

use super::arms::{self, Arms, BySeed};
use super::changes::Changes;
use super::drawing::Drawing;
use super::evidence::{Evidence, Quantity};
use super::expected::{ArmGroup, Band, Combine, Expected, LoadUnit, Measure};
use crate::Paper;
use measure::factor::Factors;
use measure::results::ExperimentReport;
use measure::states::{Alternation, Transition};
use stats::Estimate;

/// The fewest seeds for which the bands are meant.
pub const FEWEST_SEEDS: u32 = 3;

/// The results of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement<'a> {
    /// The paper's name.
    pub paper: &'a str,
    /// The statement of the figure or section.
    pub shows: &'a str,
    /// The place in the paper.
    pub source: &'a str,
    /// Whether all runs were made, and searched for patterns if the paper is about them. If not,
    /// the bands are not judged.
    pub complete: bool,
    /// The settings that replace the paper's. The bands are then not judged.
    pub changed: Vec<String>,
    /// Whether all bands hold, except those that are known to be missed. `None` if they are not
    /// judged.
    pub holds: Option<bool>,
    /// The figure as the paper draws it, if its file defines the lines.
    pub figure: Option<Drawing>,
    /// The bands, in the order of the file.
    pub bands: Vec<BandResult>,
    /// The transition points, if the paper is about them.
    pub transitions: Vec<RunTransition>,
    /// The alternations, if the paper is about them.
    pub alternations: Vec<RunAlternation>,
    /// The runs and their summaries.
    #[serde(serialize_with = "report::json::versioned")]
    pub report: &'a ExperimentReport,
}

/// The transition point of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunTransition {
    /// The arm of the run.
    pub factors: Factors,
    /// The number of its repetition, from zero.
    pub repeat: u32,
    /// Its transition point, if it has one.
    pub transition: Option<Transition>,
}

/// The alternation of the threads of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunAlternation {
    /// The arm of the run.
    pub factors: Factors,
    /// The number of its repetition, from zero.
    pub repeat: u32,
    /// Its alternation, if it has one.
    pub alternation: Option<Alternation>,
}

/// The result of a band.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BandResult {
    /// A description of the number.
    pub what: String,
    /// The measure.
    pub measure: Measure,
    /// The unit if the number is a load.
    pub counted: Option<LoadUnit>,
    /// The paper's own value, in words.
    pub paper: Option<String>,
    /// The simulated value: the mean over the seeds. `None` if no run has it.
    pub ours: Option<Estimate>,
    /// The mean distance of the arms, or groups of arms, from their mean.
    pub average_absolute_deviation: Option<f64>,
    /// The lower end of the band, which is part of it.
    pub at_least: Option<f64>,
    /// The lower end of the band, which is not part of it.
    pub above: Option<f64>,
    /// The upper end of the band, which is part of it.
    pub at_most: Option<f64>,
    /// Whether the simulated value is in the band. `None` if the band has no ends or is not judged.
    pub inside: Option<bool>,
    /// Why the simulator is known to miss the band, or null.
    pub known_miss: Option<String>,
    /// The statement of the paper and its place.
    pub source: String,
}

impl<'a> Judgement<'a> {
    /// Judges all bands of a paper by the runs in a report, unless some are missing or were made
    /// with changes.
    pub fn new(
        paper: &Paper,
        expected: &Expected,
        evidence: &Evidence<'_>,
        changes: &Changes,
        report: &'a ExperimentReport,
    ) -> Judgement<'a> {
        let (changed, measure) = (changes.words(), expected.figure.measure);
        let complete = report.complete && (!measure.is_of_patterns() || evidence.is_searched());
        let is_judged = complete && changed.is_empty();
        let bands: Vec<BandResult> =
            expected.band.iter().map(|band| judge(evidence, band, &expected.figure.job, is_judged)).collect();
        let patterns = |is_wanted: bool| evidence.patterns().filter(move |_| is_wanted);
        let transitions = patterns(measure.is_of_transitions()).map(|(arm, repeat, found)| RunTransition {
            factors: evidence.factors[arm].clone(),
            repeat,
            transition: found.transition,
        });
        let alternations = patterns(measure.is_of_alternation()).map(|(arm, repeat, found)| RunAlternation {
            factors: evidence.factors[arm].clone(),
            repeat,
            alternation: found.alternation.clone(),
        });
        Judgement {
            paper: paper.name,
            shows: paper.shows,
            source: paper.source,
            holds: is_judged.then(|| !bands.iter().any(BandResult::is_surprising)),
            complete,
            changed,
            figure: Drawing::new(evidence, &expected.figure),
            bands,
            transitions: transitions.collect(),
            alternations: alternations.collect(),
            report,
        }
    }

    /// The statement and its place.
    pub(super) fn statement(&self) -> String {
        format!("{}: {}", self.source, self.shows)
    }

    /// The number of bands that are missed.
    pub fn missed(&self) -> usize {
        self.bands.iter().filter(|band| band.inside == Some(false)).count()
    }

    /// The bands that are missed as known, and why.
    pub(super) fn known_misses(&self) -> impl Iterator<Item = (&BandResult, &String)> {
        let missed = self.bands.iter().filter(|band| band.inside == Some(false));
        missed.filter_map(|band| Some((band, band.known_miss.as_ref()?)))
    }

    /// The number of bands that are missed and not known to be, or that hold and are known to be
    /// missed.
    pub fn surprises(&self) -> usize {
        self.bands.iter().filter(|band| band.is_surprising()).count()
    }

    /// The number of bands that are judged.
    pub fn judged(&self) -> usize {
        self.bands.iter().filter(|band| band.inside.is_some()).count()
    }
}

fn judge(evidence: &Evidence<'_>, band: &Band, jobs: &[String], is_judged: bool) -> BandResult {
    let quantity = Quantity { jobs, measure: band.measure, against: &band.against };
    let arms =
        |groups: &[ArmGroup]| -> Vec<Arms> { groups.iter().map(|group| Arms::of(evidence, group, quantity)).collect() };
    let combined = |groups: &[Arms]| -> Vec<BySeed> { groups.iter().map(|arms| arms.by_seed(band.combine)).collect() };
    let groups = arms(&band.of);
    let each = combined(&groups);
    let mut by_seed = arms::mean_by_seed(each.iter());
    if !band.minus.is_empty() {
        by_seed = arms::difference(&by_seed, &arms::mean_by_seed(combined(&arms(&band.minus)).iter()));
    }
    let ours = arms::estimate(&by_seed);
    let deviation = match groups.as_slice() {
        _ if !band.minus.is_empty() => None,
        [arms] => (band.combine == Combine::Mean).then(|| arms.deviation()).flatten(),
        _ => {
            let there = each.iter().filter(|values| !values.is_empty());
            arms::average_absolute_deviation(&there.map(arms::mean).collect::<Vec<_>>())
        }
    };
    BandResult {
        what: band.what.clone(),
        measure: band.measure,
        counted: band.combine.counted(),
        paper: band.paper.clone(),
        ours,
        average_absolute_deviation: deviation,
        at_least: band.at_least,
        above: band.above,
        at_most: band.at_most,
        inside: (is_judged && band.is_judged()).then(|| ours.is_some_and(|ours| band.contains(ours.mean))),
        known_miss: band.known_miss.clone(),
        source: band.source.clone(),
    }
}

impl BandResult {
    /// Whether it is judged, and missed exactly if that is not known.
    fn is_surprising(&self) -> bool {
        self.inside.is_some_and(|inside| inside == self.known_miss.is_some())
    }

    /// Whether the simulated value is in the band, in words. `None` if the band is not judged.
    pub(super) fn verdict(&self) -> Option<&'static str> {
        Some(match (self.inside?, self.known_miss.is_some()) {
            (true, false) => "inside",
            (false, false) => "OUTSIDE",
            (false, true) => "outside, as known",
            (true, true) => "INSIDE, a known miss",
        })
    }

    /// The simulated value with half the width of its interval.
    pub fn in_words(&self) -> Option<String> {
        let decimals = match self.counted {
            Some(LoadUnit::ThreadsPerCpu) => 2,
            Some(_) => 1,
            None => self.measure.decimals(),
        };
        self.ours.map(|ours| super::text::number(&ours, decimals))
    }
}
