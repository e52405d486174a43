//! The tables: the mean of each arm, and whether it differs from the baseline.
//!
//! Tests are of the logarithms of clock times, so that p and the interval of the ratio agree. All
//! tests of a table are corrected together.

use serde::Serialize;

use super::arms::{Arm, PaperRow, Variant};
use super::runs::Observation;
use stats::SIGNIFICANCE_LEVEL;
use stats::many::holm;
use stats::student::{TTest, welch};
use stats::{self, Estimate};

/// The margin within which two means are equivalent, as a share.
pub const MARGIN: f64 = 0.05;

/// A row of a table. Times are means, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The program.
    pub variant: Variant,
    /// The arm.
    pub arm: String,
    /// The value of `ROWLOCK_PIPELINE`.
    pub structure: String,
    /// The measurement of the thesis.
    pub paper: Option<PaperRow>,
    /// The number of runs.
    pub observations: usize,
    /// User time.
    pub user_s: f64,
    /// System time.
    pub system_s: f64,
    /// Clock time, with its 95 % interval.
    pub clock_s: Estimate,
    /// The standard error of the mean. `None` with one run.
    pub standard_error_s: Option<f64>,
    /// Processor time in percent of clock time.
    pub used_percent: f64,
    /// The comparison with the baseline. `None` for the baseline itself, and if either has fewer
    /// than two runs.
    pub against: Option<Comparison>,
}

/// The comparison of an arm with another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The other arm.
    pub arm: String,
    /// The ratio of the geometric means, with its 95 % interval.
    pub times_as_long: Estimate,
    /// The probability of a difference at least this large if there were none: Welch's test,
    /// two-sided.
    pub p: f64,
    /// The same, corrected for all comparisons of the table (Holm).
    pub corrected_p: f64,
    /// The probability of a difference this small if the true one were 5 % or more: two one-sided
    /// tests.
    pub equivalence_p: f64,
    /// The same, corrected in the same way.
    pub corrected_equivalence_p: f64,
    /// The conclusion.
    pub verdict: Verdict,
}

/// The conclusion of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It takes less time.
    Faster,
    /// It takes more time.
    Slower,
    /// It takes less time, but by significantly less than 5 %.
    FasterWithinMargin,
    /// It takes more time, but by significantly less than 5 %.
    SlowerWithinMargin,
    /// There is no significant difference, and any difference is significantly below 5 %.
    Equivalent,
    /// Neither a difference nor equivalence is significant: more runs are needed.
    NotDecided,
}

impl Verdict {
    /// All verdicts, from faster to slower.
    pub(super) const ALL: [Verdict; 6] = [
        Verdict::Faster,
        Verdict::FasterWithinMargin,
        Verdict::Equivalent,
        Verdict::SlowerWithinMargin,
        Verdict::Slower,
        Verdict::NotDecided,
    ];

    /// The verdict from the ratio and the corrected p-values of the difference and of equivalence.
    pub fn of(times_as_long: f64, p: f64, equivalence_p: f64) -> Verdict {
        match (p < SIGNIFICANCE_LEVEL, equivalence_p < SIGNIFICANCE_LEVEL, times_as_long < 1.0) {
            (true, false, true) => Verdict::Faster,
            (true, false, false) => Verdict::Slower,
            (true, true, true) => Verdict::FasterWithinMargin,
            (true, true, false) => Verdict::SlowerWithinMargin,
            (false, true, _) => Verdict::Equivalent,
            (false, false, _) => Verdict::NotDecided,
        }
    }

    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::FasterWithinMargin => "faster, by less than 5 %",
            Verdict::SlowerWithinMargin => "slower, by less than 5 %",
            Verdict::Equivalent => "equivalent within 5 %",
            Verdict::NotDecided => "not decided",
        }
    }
}

/// The rows of these arms, in their order. Arms without runs are omitted. Each arm is compared with
/// the arm `baseline` of the same variant.
pub fn rows(arms: &[&Arm], runs: &[Observation], baseline: &str) -> Vec<Row> {
    let logarithms =
        |arm: &Arm| runs.iter().filter(|run| run.is_of(arm)).map(|run| run.clock_s.ln()).collect::<Vec<f64>>();
    let test = |arm: &Arm| -> Option<TTest> {
        let other = arms.iter().find(|other| other.variant == arm.variant && other.name == baseline)?;
        if other.name == arm.name { None } else { welch(&logarithms(arm), &logarithms(other)) }
    };
    let tests: Vec<Option<TTest>> = arms.iter().map(|arm| test(arm)).collect();
    let bound = (1.0 + MARGIN).ln();
    let corrected = |p: &dyn Fn(&TTest) -> f64| holm(&tests.iter().flatten().map(p).collect::<Vec<_>>()).into_iter();
    let mut corrected = corrected(&|test| test.p).zip(corrected(&|test| test.equivalence(bound)));
    let mut against = |test: &TTest| {
        let (corrected_p, corrected_equivalence_p) = corrected.next()?;
        let times_as_long = test.difference.map(f64::exp);
        Some(Comparison {
            arm: baseline.to_owned(),
            times_as_long,
            p: test.p,
            corrected_p,
            equivalence_p: test.equivalence(bound),
            corrected_equivalence_p,
            verdict: Verdict::of(times_as_long.mean, corrected_p, corrected_equivalence_p),
        })
    };
    let against: Vec<Option<Comparison>> = tests.iter().map(|test| test.as_ref().and_then(&mut against)).collect();
    arms.iter().zip(against).filter_map(|(arm, against)| row(arm, runs, against)).collect()
}

/// Takes all verdicts back, if some of the requested runs are missing.
pub fn undecide(rows: &mut [Row]) {
    rows.iter_mut().filter_map(|row| row.against.as_mut()).for_each(|against| against.verdict = Verdict::NotDecided);
}

fn row(arm: &Arm, runs: &[Observation], against: Option<Comparison>) -> Option<Row> {
    let of_it: Vec<&Observation> = runs.iter().filter(|run| run.is_of(arm)).collect();
    let values = |of: fn(&Observation) -> f64| of_it.iter().map(|run| of(run)).collect::<Vec<f64>>();
    let mean = |of| stats::mean(&values(of)).map(|estimate| estimate.mean);
    let clocks = values(|run| run.clock_s);
    Some(Row {
        variant: arm.variant,
        arm: arm.name.to_owned(),
        structure: arm.structure.to_owned(),
        paper: arm.paper,
        observations: of_it.len(),
        user_s: mean(|run| run.user_s)?,
        system_s: mean(|run| run.system_s)?,
        clock_s: stats::mean(&clocks)?,
        standard_error_s: stats::student::one_sample(&clocks).map(|test| test.standard_error),
        used_percent: mean(|run| run.used_percent)?,
        against,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fg::Experiment;

    /// Runs of an arm with these clock times.
    fn runs(name: &str, clocks: &[f64]) -> Vec<Observation> {
        let arm = Experiment::FixedRules
            .arms()
            .into_iter()
            .find(|arm| arm.variant == Variant::ComputeBound && arm.name == name)
            .unwrap();
        clocks
            .iter()
            .zip(0..)
            .map(|(&clock, round)| Observation::new(arm, round, 1.5 * clock, 0.25 * clock, clock))
            .collect()
    }

    fn table(runs: &[Observation]) -> Vec<Row> {
        rows(&Experiment::FixedRules.arms(), runs, "default")
    }

    #[test]
    fn means_errors_and_ratios_are_those_computed_by_hand() {
        let mut all = runs("default", &[10.0, 10.2, 9.8, 10.1, 9.9]);
        all.extend(runs("nice-up-io", &[9.0, 9.18, 8.82, 9.09, 8.91]));
        let table = table(&all);
        // The squared deviations add up to 0.10. The variance is 0.025, and the standard error of
        // the mean of five is 0.0707.
        assert_eq!((table.len(), table[0].observations, table[0].against.clone()), (2, 5, None));
        assert!(
            (table[0].clock_s.mean - 10.0).abs() < 1e-12
                && (table[0].standard_error_s.unwrap() - 0.070_711).abs() < 1e-6
        );
        assert!((table[0].user_s - 15.0).abs() < 1e-12 && (table[0].used_percent - 175.0).abs() < 1e-9);
        let against = table[1].against.as_ref().unwrap();
        // Each clock time is 0.9 of its counterpart, and so are the geometric means.
        assert!((against.times_as_long.mean - 0.9).abs() < 1e-12 && against.times_as_long.interval.unwrap().1 < 0.95);
        assert_eq!(
            (against.verdict, against.p, against.arm.as_str()),
            (Verdict::Faster, against.corrected_p, "default")
        );
        assert_eq!(table[1].paper.unwrap().clock_s, 12.05);
    }

    #[test]
    fn every_verdict_occurs() {
        let default: &[f64] = &[10.0, 10.2, 9.8, 10.1, 9.9];
        let verdict = |clocks: &[f64]| {
            let mut all = runs("default", default);
            all.extend(runs("nice-down-io", clocks));
            table(&all)[1].against.as_ref().unwrap().verdict
        };
        let times = |factor: f64| default.iter().map(|clock| clock * factor).collect::<Vec<_>>();
        let narrow = |factor: f64| vec![10.0 * factor, 10.001 * factor, 9.999 * factor];
        assert_eq!(verdict(&times(1.2)), Verdict::Slower);
        assert_eq!(verdict(&times(0.8)), Verdict::Faster);
        assert_eq!(verdict(&times(1.0)), Verdict::Equivalent);
        assert_eq!(verdict(&narrow(1.025)), Verdict::SlowerWithinMargin);
        assert_eq!(verdict(&narrow(0.975)), Verdict::FasterWithinMargin);
        assert_eq!(verdict(&[8.0, 12.0, 10.0]), Verdict::NotDecided);
        let mut incomplete = table(&[runs("default", default), runs("nice-down-io", &times(1.2))].concat());
        undecide(&mut incomplete);
        assert_eq!(incomplete[1].against.as_ref().unwrap().verdict, Verdict::NotDecided);
    }

    #[test]
    fn several_comparisons_are_corrected_together() {
        let mut all = runs("default", &[10.0, 10.2, 9.8, 10.1, 9.9]);
        all.extend(runs("nice-down-io", &[10.3, 10.2, 10.1, 10.4, 10.0]));
        all.extend(runs("nice-up-io", &[10.2, 10.1, 10.0, 10.3, 9.9]));
        let table = table(&all);
        let [down, up] = [1, 2].map(|row: usize| table[row].against.clone().unwrap());
        assert!(down.p < up.p);
        assert_eq!((down.corrected_p, up.corrected_p), (2.0 * down.p, (2.0 * down.p).max(up.p)));
    }

    #[test]
    fn one_run_makes_a_row_without_a_test_and_no_run_makes_no_row() {
        let mut all = runs("default", &[10.0]);
        all.extend(runs("nice-up-io", &[9.0]));
        let table = table(&all);
        assert_eq!(table.len(), 2);
        assert!(table.iter().all(|row| row.against.is_none() && row.standard_error_s.is_none()));
    }
}
