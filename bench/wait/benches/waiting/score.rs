//! Scores: how close an arm is to the best one, despite noise and many arms to choose from.
//!
//! The best of twenty equal arms looks better than it is, because it was selected for its random
//! advantage. So the best arm of a cell is chosen on one half of the repetitions, and the judged
//! arm is compared with it on the other half, by medians, and then with the halves exchanged. The
//! geometric mean over many random halves is the *score*: 1 for an arm that is always the best, and
//! less for others. It may exceed 1 if the chosen arm was good by chance.
//!
//! Intervals are by bootstrap: repetitions are resampled, all arms of a repetition together, since
//! they ran in sequence and under the same conditions. The halves divide the different repetitions
//! of the sample, so that copies of one repetition never are in both halves. Otherwise the choice
//! would depend on the scored data. The interval holds the middle 95 % of the scores. It is rough
//! with six repetitions, and there is none with fewer than four.

use crate::random::Random;
use crate::sheet::{Rates, Sheet, median};

/// The random halves for a score.
const SPLITS: usize = 64;
/// The samples for an interval, and the random halves of each.
const RESAMPLES: usize = 1_000;
const SPLITS_OF_A_RESAMPLE: usize = 4;
/// Fewer repetitions have no interval, because resampling two gives the same two.
const ENOUGH: usize = 4;

/// A ratio with its 95 % interval, if there are enough repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) interval: Option<(f64, f64)>,
}

impl Ratio {
    /// Whether the whole interval is below.
    pub(crate) fn is_surely_below(self, bound: f64) -> bool {
        self.interval.is_some_and(|(_, high)| high < bound)
    }
}

/// The scores of all arms against some of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scores {
    /// By cell, then by arm. `None` if the arm or all of its references have no runs, or if there
    /// is only one repetition.
    pub(crate) cells: Vec<Vec<Option<Ratio>>>,
    /// By arm: the geometric mean over all cells with a score.
    pub(crate) overall: Vec<Option<Ratio>>,
}

impl Scores {
    /// The geometric mean of an arm's scores, limited to 1: no arm is better than the best, even if
    /// the choice was wrong in a cell.
    pub(crate) fn capped(&self, arm: usize) -> Option<f64> {
        let logarithms: Vec<f64> =
            self.cells.iter().filter_map(|scores| Some(scores[arm]?.value.min(1.0).ln())).collect();
        mean(&logarithms).map(f64::exp)
    }
}

/// By half, then by arm: the median, or NaN without a run.
type Medians = [Vec<f64>; 2];

/// The splits of one cell, and those of its samples.
struct Drawn {
    splits: Vec<Medians>,
    resamples: Vec<Vec<Medians>>,
}

/// A sheet with random splits.
pub(crate) struct Scorer<'a> {
    sheet: &'a Sheet,
    drawn: Vec<Drawn>,
}

impl Scorer<'_> {
    /// Draws halves and repetitions from the seed.
    pub(crate) fn new(sheet: &Sheet, seed: u64) -> Scorer<'_> {
        let mut random = Random::new(seed);
        Scorer { sheet, drawn: sheet.cells.iter().map(|cell| Drawn::new(cell, &mut random)).collect() }
    }

    /// Scores every arm against the best of its candidates. `is_candidate` gets the numbers of the
    /// judged arm and of another.
    pub(crate) fn against(&self, is_candidate: impl Fn(usize, usize) -> bool) -> Scores {
        let arms = self.sheet.arms.len();
        let mut cells = vec![vec![None; arms]; self.drawn.len()];
        let mut overall = vec![None; arms];
        for judged in 0..arms {
            let candidates: Vec<usize> = (0..arms).filter(|&other| is_candidate(judged, other)).collect();
            // The cells with a score, and the samples of those with an interval.
            let (mut scores, mut resamples) = (Vec::new(), Vec::new());
            for (drawn, cells) in self.drawn.iter().zip(&mut cells) {
                let Some(score) = logarithm(&drawn.splits, judged, &candidates) else { continue };
                let resampled = drawn.resamples.iter().map(|splits| logarithm(splits, judged, &candidates));
                // A sample without runs of an arm counts as the score itself.
                let resampled: Vec<f64> = resampled.map(|drawn| drawn.unwrap_or(score)).collect();
                cells[judged] = Some(ratio(score, resampled.clone()));
                scores.push(score);
                resamples.push(resampled);
            }
            overall[judged] = mean(&scores).map(|score| {
                let of_all = |n: usize| mean(&resamples.iter().map(|drawn| drawn[n]).collect::<Vec<f64>>());
                let complete = resamples.iter().all(|drawn| !drawn.is_empty());
                ratio(score, (0..if complete { RESAMPLES } else { 0 }).filter_map(of_all).collect())
            });
        }
        Scores { cells, overall }
    }

    /// The scores against the best of all arms, without other copies of the same arm.
    pub(crate) fn against_best(&self) -> Scores {
        let arms = &self.sheet.arms;
        self.against(|judged, other| judged == other || arms[judged].arm != arms[other].arm)
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A ratio from logarithms.
fn ratio(score: f64, mut resampled: Vec<f64>) -> Ratio {
    resampled.sort_unstable_by(f64::total_cmp);
    let last = resampled.len().checked_sub(1);
    let at = |share: f64| last.map(|last| resampled[(last as f64 * share).round() as usize].exp());
    Ratio { value: score.exp(), interval: at(0.025).zip(at(0.975)) }
}

/// The mean logarithm of the judged arm over the best candidate, over all splits and both roles of
/// the halves.
fn logarithm(splits: &[Medians], judged: usize, candidates: &[usize]) -> Option<f64> {
    let mut sum = 0.0;
    for halves in splits {
        for (choosing, scoring) in [(&halves[0], &halves[1]), (&halves[1], &halves[0])] {
            let both = candidates.iter().filter(|&&arm| !choosing[arm].is_nan() && !scoring[arm].is_nan());
            let best = *both.max_by(|&&one, &&other| choosing[one].total_cmp(&choosing[other]))?;
            sum += (scoring[judged] / scoring[best]).ln();
        }
    }
    // NaN if the judged arm has no run in a half.
    let mean = sum / (2 * splits.len()) as f64;
    mean.is_finite().then_some(mean)
}

impl Drawn {
    fn new(cell: &Rates, random: &mut Random) -> Drawn {
        let count = cell.rates.first().map_or(0, Vec::len);
        let once = vec![1; count];
        let splits = (0..SPLITS).map(|_| medians(cell, &once, random)).collect();
        let resample = |random: &mut Random| {
            let mut times = vec![0; count];
            // Two halves need at least two different repetitions.
            while times.iter().filter(|&&times| times > 0).count() < 2 {
                times.fill(0);
                (0..count).for_each(|_| times[random.below(count)] += 1);
            }
            (0..SPLITS_OF_A_RESAMPLE).map(|_| medians(cell, &times, random)).collect()
        };
        let resamples = if count < ENOUGH { 0 } else { RESAMPLES };
        Drawn { splits, resamples: (0..resamples).map(|_| resample(random)).collect() }
    }
}

/// Splits the repetitions with a positive count into halves, each with its count, and returns the
/// medians of both halves.
fn medians(cell: &Rates, times: &[usize], random: &mut Random) -> Medians {
    let mut drawn: Vec<usize> = (0..times.len()).filter(|&repetition| times[repetition] > 0).collect();
    random.shuffle(&mut drawn);
    let (one, other) = drawn.split_at(drawn.len() / 2);
    [one, other].map(|half| {
        let of_arm = |rates: &Vec<Option<f64>>| {
            let values = half
                .iter()
                .flat_map(|&n| rates[n].into_iter().flat_map(move |rate| std::iter::repeat_n(rate, times[n])));
            median(values.collect()).unwrap_or(f64::NAN)
        };
        cell.rates.iter().map(of_arm).collect()
    })
}
