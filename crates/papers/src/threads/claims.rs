//! The study's claims about its configurations, compared with runs.
//!
//! A claim is tested with runs of all nine configurations, by round, because a disturbance slows a
//! whole round. "Smaller values" and larger ones are the configurations at most one step from the
//! smallest and from the largest ([`SMALL`], [`LARGE`]). The three between count for neither. Two
//! times are *the same* if the 95 % interval of their ratio lies within 5 %. That is tested first,
//! so that a significant difference that is invisible in a bar chart makes no claim true.

use serde::Serialize;

use super::MANY;
use super::arms::{Arm, BEST, CONFIGURATIONS, Configuration, LARGE, SMALL, System};
use super::runs::{Observation, Temperature, by_round};
use measure::claim::ClaimOutcome::{self, Agrees, Disagrees, Undecided};
use report::words;
use stats::SIGNIFICANCE_LEVEL;
use stats::many::holm_among;
use stats::student::{TTest, one_sample};
use stats::{self, Estimate};

/// Two times are the same if their ratio is within this.
const SAME: f64 = 1.05;

/// "About 300%": four times as long, or three times in the usage of some authors. The bounds allow
/// for both.
const ABOUT_300_PERCENT: (f64, f64) = (2.5, 5.0);

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimVerdict {
    /// The claim.
    pub claim: &'static str,
    /// The temperature of the runs.
    pub at: Temperature,
    /// Whether it holds.
    pub answer: ClaimOutcome,
    /// The reason, with figures.
    pub evidence: String,
}

/// An outcome with the reason.
type Judged = (ClaimOutcome, String);

/// A claim, and the function that judges it.
type Claim = (&'static str, fn(&Times) -> Judged);

const CLAIMS: [Claim; 3] = [
    ("Configurations with smaller values of both perform better with fewer threads", small_at_few),
    ("They are outperformed by about 300 % from 1000 threads on", small_at_many),
    ("The configurations converge into three categories, of which the best is 50/50, 50/150 and 100/150", clusters),
];

/// The verdicts on all claims, for first runs and for later ones. Empty unless all configurations
/// were run. If the runs are not complete, no claim is decided.
pub fn verdicts(runs: &[Observation], threads: &[u32], is_complete: bool) -> Vec<ClaimVerdict> {
    let times = Temperature::ALL.map(|at| (at, Times::new(runs, threads, at)));
    let judge = |(at, times): &(Temperature, Times)| {
        CLAIMS.map(|(claim, judge)| {
            let (answer, evidence) = match judge(times) {
                (_, evidence) if !is_complete => (Undecided, format!("{evidence}; the other runs are missing")),
                judged => judged,
            };
            ClaimVerdict { claim, at: *at, answer, evidence }
        })
    };
    times.iter().filter(|(_, times)| !times.0.is_empty()).flat_map(judge).collect()
}

/// For each number of threads, the logarithms of the times of each round, in the order of
/// [`CONFIGURATIONS`].
struct Times(Vec<(u32, Vec<Vec<f64>>)>);

impl Times {
    fn new(runs: &[Observation], threads: &[u32], at: Temperature) -> Times {
        // All runs have the same system.
        let system = runs.first().map_or(System::Fibers, |run| run.cell.arm.system);
        let arms = CONFIGURATIONS.map(|configuration| Arm { system, configuration: Some(configuration) });
        let of = |&threads: &u32| {
            let mut rounds = by_round(runs, &arms, threads, at);
            rounds.iter_mut().flatten().for_each(|time| *time = time.ln());
            (threads, rounds)
        };
        Times(threads.iter().map(of).filter(|(_, rounds)| !rounds.is_empty()).collect())
    }

    /// The times with at least [`MANY`] threads, or those with fewer.
    fn with(&self, many: bool) -> Vec<&(u32, Vec<Vec<f64>>)> {
        self.0.iter().filter(|(threads, _)| (*threads >= MANY) == many).collect()
    }
}

/// For each round, the logarithm of the mean ratio of small to large configurations.
fn small_over_large(rounds: &[Vec<f64>]) -> Vec<f64> {
    let mean = |round: &[f64], of: &[Configuration]| {
        let place = |configuration| CONFIGURATIONS.iter().position(|of| of == configuration);
        of.iter().filter_map(place).map(|place| round[place]).sum::<f64>() / of.len() as f64
    };
    rounds.iter().map(|round| mean(round, &SMALL) - mean(round, &LARGE)).collect()
}

/// The ratio of small to large configurations, averaged over several numbers of threads, and in
/// words for each of them.
fn contrast(groups: &[&(u32, Vec<Vec<f64>>)]) -> Option<(Estimate, String)> {
    let each: Vec<(u32, Vec<f64>)> =
        groups.iter().map(|(threads, rounds)| (*threads, small_over_large(rounds))).collect();
    let rounds = each.iter().map(|(_, ratios)| ratios.len()).min()?;
    let mean = |round: usize| each.iter().map(|(_, ratios)| ratios[round]).sum::<f64>() / each.len() as f64;
    let all = ratio(&(0..rounds).map(mean).collect::<Vec<f64>>())?;
    let of =
        |(threads, ratios): &(u32, Vec<f64>)| Some(format!("{} with {threads} threads", words::ratio(&ratio(ratios)?)));
    let parts: Vec<String> = each.iter().filter_map(of).collect();
    let evidence =
        format!("small settings take {} times as long as large ones: {}", words::ratio(&all), parts.join(", "));
    Some((all, evidence))
}

fn ratio(logarithms: &[f64]) -> Option<Estimate> {
    Some(stats::mean(logarithms)?.map(f64::exp))
}

fn is_same(ratio: &Estimate) -> bool {
    ratio.interval.is_some_and(|(low, high)| 1.0 / SAME <= low && high <= SAME)
}

/// Judges a claim by the ratio of small to large configurations, with many threads or with few. The
/// function returns the outcome and an addition to the evidence.
fn judge(times: &Times, many: bool, outcome: impl Fn(Estimate) -> (ClaimOutcome, &'static str)) -> Judged {
    let Some((ratio, evidence)) = contrast(&times.with(many)) else { return not_run(many) };
    let (outcome, but) = outcome(ratio);
    (outcome, evidence + but)
}

fn not_run(many: bool) -> Judged {
    let numbers = if many { format!("{MANY} threads or more") } else { format!("fewer than {MANY} threads") };
    (Undecided, format!("nothing was run with {numbers}"))
}

fn small_at_few(times: &Times) -> Judged {
    judge(times, false, |ratio| match ratio.interval {
        _ if is_same(&ratio) => (Disagrees, "; they are the same within 5 %"),
        Some((_, high)) if high < 1.0 => (Agrees, ""),
        Some((low, _)) if low > 1.0 => (Disagrees, "; it is the other way round"),
        _ => (Undecided, "; more runs are needed"),
    })
}

fn small_at_many(times: &Times) -> Judged {
    let (least, most) = ABOUT_300_PERCENT;
    judge(times, true, |ratio| match ratio.interval {
        Some((low, high)) if least <= low && high <= most => (Agrees, ""),
        _ if is_same(&ratio) => (Disagrees, "; they are the same within 5 %"),
        Some((low, high)) if high < least || most < low => (Disagrees, "; about 300 % would be 2.5 to 5"),
        _ => (Undecided, "; about 300 % would be 2.5 to 5, and more runs are needed"),
    })
}

/// The configurations from the fastest to the slowest, in groups with gaps between them.
///
/// Two neighbours have a gap if they differ significantly and by more than 5 %: by the paired
/// t-test of their logarithms, corrected for all pairs that could have been neighbours (Holm). That
/// there are fewer than three groups is certain only if all other pairs of neighbours are the same
/// within 5 %.
struct Groups {
    groups: Vec<Vec<Configuration>>,
    /// Whether it is certain for all neighbours that there is a gap or that there is none.
    is_certain: bool,
    /// The time of the slowest over that of the fastest.
    spread: f64,
}

impl Groups {
    /// Groups the times with many threads. Each round counts with the mean of their logarithms over
    /// the numbers of threads. `None` with fewer than two rounds.
    fn new(groups: &[&(u32, Vec<Vec<f64>>)]) -> Option<Groups> {
        let rounds = groups.iter().map(|(_, rounds)| rounds.len()).min()?;
        let mean = |round: usize, of: usize| {
            groups.iter().map(|(_, rounds)| rounds[round][of]).sum::<f64>() / groups.len() as f64
        };
        let times = |of: usize| (0..rounds).map(|round| mean(round, of)).collect::<Vec<f64>>();
        let mut sorted: Vec<(Configuration, Vec<f64>)> =
            CONFIGURATIONS.iter().copied().zip((0..CONFIGURATIONS.len()).map(times)).collect();
        let middle = |(_, times): &(Configuration, Vec<f64>)| times.iter().sum::<f64>() / rounds as f64;
        sorted.sort_by(|one, other| middle(one).total_cmp(&middle(other)));
        let test = |pair: &[(Configuration, Vec<f64>)]| {
            one_sample(&pair[1].1.iter().zip(&pair[0].1).map(|(slower, faster)| slower - faster).collect::<Vec<f64>>())
        };
        let tests: Vec<TTest> = sorted.windows(2).map(test).collect::<Option<_>>()?;
        let all = CONFIGURATIONS.len() * (CONFIGURATIONS.len() - 1) / 2;
        let corrected = holm_among(all, &tests.iter().map(|test| test.p).collect::<Vec<f64>>());
        let mut found = vec![vec![sorted[0].0]];
        let mut is_certain = true;
        for ((test, p), (configuration, _)) in tests.iter().zip(corrected).zip(&sorted[1..]) {
            let is_gap = p < SIGNIFICANCE_LEVEL && test.difference.mean > SAME.ln();
            is_certain &= is_gap || test.equivalence(SAME.ln()) < SIGNIFICANCE_LEVEL;
            if is_gap {
                found.push(Vec::new());
            }
            found.last_mut()?.push(*configuration);
        }
        let spread = middle(sorted.last()?) - middle(&sorted[0]);
        Some(Groups { groups: found, is_certain, spread: spread.exp() })
    }
}

fn clusters(times: &Times) -> Judged {
    let many = times.with(true);
    if many.is_empty() {
        return not_run(true);
    }
    let Some(Groups { groups, is_certain, spread }) = Groups::new(&many) else {
        return (Undecided, "it takes more than one round to distinguish groups from noise".to_owned());
    };
    let name = |group: &Vec<Configuration>| group.iter().map(Configuration::name).collect::<Vec<_>>().join(", ");
    let names: Vec<String> = groups.iter().map(name).collect();
    let slowest = format!("the slowest takes {spread:.2} times as long as the fastest");
    let evidence = match names.as_slice() {
        [_] => format!("there is no gap among them that noise does not explain; {slowest}"),
        names => format!("{} groups, the fastest first: {}; {slowest}", names.len(), names.join(" | ")),
    };
    let has_best =
        groups.first().is_some_and(|group| group.len() == BEST.len() && BEST.iter().all(|best| group.contains(best)));
    let (outcome, but) = match groups.len() {
        3 if has_best => (Agrees, ""),
        3 => (Disagrees, "; there are three, but others are the best"),
        1 | 2 if !is_certain => (Undecided, "; there may be smaller gaps, which more runs would show"),
        _ => (Disagrees, ""),
    };
    (outcome, evidence + but)
}

#[cfg(test)]
mod tests;
