//! Table 5: regression of clock time on processor time and processor use.

use serde::Serialize;

use super::arms::Variant;
use super::runs::Observation;
use stats::regression::{self, Coefficient};

/// The regression of one variant's runs, with all rules together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockRegression {
    /// The program.
    pub variant: Variant,
    /// The number of runs.
    pub observations: usize,
    /// The constant term, and the seconds that a second of user time, a second of system time and a
    /// percent of use add.
    pub terms: Vec<Term>,
    /// The share of the variation that is explained. `None` without a fit.
    pub r_squared: Option<f64>,
    /// Why there is no fit.
    pub why_not: Option<String>,
}

/// A coefficient.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    /// The name of its regressor.
    pub of: &'static str,
    /// The value.
    pub value: f64,
    /// The standard error.
    pub standard_error: f64,
    /// The value in standard errors.
    pub t: f64,
    /// The probability of a t at least this far from zero if the coefficient were zero.
    pub p: f64,
    /// The thesis' value and its t. The thesis does not give its constant term.
    pub paper: Option<PaperTerm>,
}

/// A coefficient of the thesis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PaperTerm {
    /// The value.
    pub value: f64,
    /// Its t, printed without its sign.
    pub t: f64,
}

const NAMES: [&str; 3] = ["user time", "system time", "percent used"];

/// Table 5.
const fn paper(variant: Variant) -> [PaperTerm; 3] {
    const fn term(value: f64, t: f64) -> PaperTerm {
        PaperTerm { value, t }
    }
    match variant {
        Variant::ComputeBound => [term(0.512, 1072.86), term(0.501, 19.64), term(-0.066, 213.71)],
        Variant::IoBound => [term(0.64, 18.76), term(0.70, 15.15), term(-0.174, 90.89)],
    }
}

/// The regressions of the variants that have runs.
pub fn clock_regressions(runs: &[Observation]) -> Vec<ClockRegression> {
    Variant::ALL.into_iter().filter_map(|variant| balance(variant, runs)).collect()
}

fn balance(variant: Variant, runs: &[Observation]) -> Option<ClockRegression> {
    let of_it: Vec<&Observation> = runs.iter().filter(|run| run.variant == variant).collect();
    let observations = of_it.len();
    if observations == 0 {
        return None;
    }
    let column = |of: fn(&Observation) -> f64| of_it.iter().map(|run| of(run)).collect::<Vec<f64>>();
    let regressors = [column(|run| run.user_s), column(|run| run.system_s), column(|run| run.used_percent)];
    let fit = match regression::fit(&column(|run| run.clock_s), &regressors, true) {
        Ok(fit) => fit,
        Err(why) => {
            let why_not = Some(why.to_string());
            return Some(ClockRegression { variant, observations, terms: Vec::new(), r_squared: None, why_not });
        }
    };
    let term = |of: &'static str, coefficient: &Coefficient, paper| {
        let &Coefficient { value, standard_error, t, p, .. } = coefficient;
        Term { of, value, standard_error, t, p, paper }
    };
    let mut terms: Vec<Term> = fit.intercept.iter().map(|constant| term("constant", constant, None)).collect();
    let others = NAMES.into_iter().zip(&fit.coefficients).zip(paper(variant));
    terms.extend(others.map(|((name, coefficient), paper)| term(name, coefficient, Some(paper))));
    Some(ClockRegression { variant, observations, terms, r_squared: Some(fit.r_squared), why_not: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fg::arms::RULES;

    #[test]
    fn the_regression_finds_the_coefficients_of_exact_data() {
        // Clock times computed as 3 + 0.5 user + 0.7 system - 0.02 used.
        let parts = [
            (20.0, 1.0, 180.0),
            (21.0, 1.3, 190.0),
            (22.0, 1.1, 185.0),
            (19.0, 1.2, 195.0),
            (20.5, 0.9, 170.0),
            (23.0, 1.0, 188.0),
        ];
        let runs: Vec<Observation> = parts
            .into_iter()
            .map(|(user_s, system_s, used_percent)| {
                let clock_s = 3.0 + 0.5 * user_s + 0.7 * system_s - 0.02 * used_percent;
                Observation { used_percent, ..Observation::new(&RULES[0], 0, user_s, system_s, clock_s) }
            })
            .collect();
        let found = clock_regressions(&runs);
        assert_eq!(found.len(), 1);
        let values: Vec<f64> = found[0].terms.iter().map(|term| term.value).collect();
        for (value, expected) in values.into_iter().zip([3.0, 0.5, 0.7, -0.02]) {
            assert!((value - expected).abs() < 1e-9, "{found:?}");
        }
        assert_eq!(found[0].terms[1].paper.unwrap().value, 0.512);
        let few = clock_regressions(&runs[..3]);
        assert!(few[0].terms.is_empty() && few[0].why_not.as_ref().unwrap().contains("too few"), "{few:?}");
        assert_eq!(clock_regressions(&[]), []);
    }
}
