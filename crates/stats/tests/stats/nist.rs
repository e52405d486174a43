//! Regression against the certified values of NIST's Statistical Reference Datasets (public
//! domain), and against statsmodels.

use rowlock_stats::regression::{Coefficient, Fit, FitError, fit};

/// Asserts agreement to this many digits.
#[track_caller]
fn assert_digits(found: f64, expected: f64, digits: i32) {
    let error = if expected == 0.0 { found.abs() } else { (found - expected).abs() / expected.abs() };
    assert!(error < 10.0_f64.powi(-digits), "{found} is not {expected} to {digits} digits");
}

/// Checks coefficients, intercept first, and their standard errors.
#[track_caller]
fn assert_coefficients(fit: &Fit, expected: &[(f64, f64)], digits: i32) {
    let all: Vec<&Coefficient> = fit.intercept.iter().chain(&fit.coefficients).collect();
    assert_eq!(all.len(), expected.len());
    for (found, &(value, error)) in all.into_iter().zip(expected) {
        assert_digits(found.value, value, digits);
        assert_digits(found.standard_error, error, digits);
        assert_digits(found.t, value / error, digits);
    }
}

#[rustfmt::skip]
const NORRIS: [(f64, f64); 36] = [
    (0.1, 0.2), (338.8, 337.4), (118.1, 118.2), (888.0, 884.6), (9.2, 10.1), (228.1, 226.5), (668.5, 666.3),
    (998.5, 996.3), (449.1, 448.6), (778.9, 777.0), (559.2, 558.2), (0.3, 0.4), (0.1, 0.6), (778.1, 775.5),
    (668.8, 666.9), (339.3, 338.0), (448.9, 447.5), (10.8, 11.6), (557.7, 556.0), (228.3, 228.1), (998.0, 995.8),
    (888.8, 887.6), (119.6, 120.2), (0.3, 0.3), (0.6, 0.3), (557.6, 556.8), (339.3, 339.1), (888.0, 887.2),
    (998.5, 999.0), (778.9, 779.0), (10.2, 11.1), (117.6, 118.3), (228.9, 229.2), (668.4, 669.1), (449.2, 448.9),
    (0.2, 0.5),
];

#[test]
fn norris_a_straight_line() {
    let (y, x): (Vec<f64>, Vec<f64>) = NORRIS.into_iter().unzip();
    let fit = fit(&y, &[x], true).unwrap();
    let certified = [(-0.262323073774029, 0.232818234301152), (1.00211681802045, 0.429796848199937E-03)];
    assert_coefficients(&fit, &certified, 11);
    assert_digits(fit.residual_deviation, 0.884796396144373, 13);
    assert_digits(fit.r_squared, 0.999993745883712, 14);
    assert_digits(fit.f, 5436385.54079785, 12);
    assert_eq!((fit.observations, fit.freedom), (36, 34));
}

/// Employment; then deflator, gross national product, unemployed, armed forces, population, year.
const LONGLEY: [[f64; 7]; 16] = [
    [60323.0, 83.0, 234289.0, 2356.0, 1590.0, 107608.0, 1947.0],
    [61122.0, 88.5, 259426.0, 2325.0, 1456.0, 108632.0, 1948.0],
    [60171.0, 88.2, 258054.0, 3682.0, 1616.0, 109773.0, 1949.0],
    [61187.0, 89.5, 284599.0, 3351.0, 1650.0, 110929.0, 1950.0],
    [63221.0, 96.2, 328975.0, 2099.0, 3099.0, 112075.0, 1951.0],
    [63639.0, 98.1, 346999.0, 1932.0, 3594.0, 113270.0, 1952.0],
    [64989.0, 99.0, 365385.0, 1870.0, 3547.0, 115094.0, 1953.0],
    [63761.0, 100.0, 363112.0, 3578.0, 3350.0, 116219.0, 1954.0],
    [66019.0, 101.2, 397469.0, 2904.0, 3048.0, 117388.0, 1955.0],
    [67857.0, 104.6, 419180.0, 2822.0, 2857.0, 118734.0, 1956.0],
    [68169.0, 108.4, 442769.0, 2936.0, 2798.0, 120445.0, 1957.0],
    [66513.0, 110.8, 444546.0, 4681.0, 2637.0, 121950.0, 1958.0],
    [68655.0, 112.6, 482704.0, 3813.0, 2552.0, 123366.0, 1959.0],
    [69564.0, 114.2, 502601.0, 3931.0, 2514.0, 125368.0, 1960.0],
    [69331.0, 115.7, 518173.0, 4806.0, 2572.0, 127852.0, 1961.0],
    [70551.0, 116.9, 554894.0, 4007.0, 2827.0, 130081.0, 1962.0],
];

#[test]
fn longley_six_nearly_collinear_regressors() {
    let column = |number: usize| LONGLEY.iter().map(|row| row[number]).collect::<Vec<_>>();
    let fit = fit(&column(0), &(1..7).map(column).collect::<Vec<_>>(), true).unwrap();
    let certified = [
        (-3482258.63459582, 890420.383607373),
        (15.0618722713733, 84.9149257747669),
        (-0.358191792925910E-01, 0.334910077722432E-01),
        (-2.02022980381683, 0.488399681651699),
        (-1.03322686717359, 0.214274163161675),
        (-0.511041056535807E-01, 0.226073200069370),
        (1829.15146461355, 455.478499142212),
    ];
    assert_coefficients(&fit, &certified, 11);
    assert_digits(fit.residual_deviation, 304.854073561965, 12);
    assert_digits(fit.r_squared, 0.995479004577296, 13);
    assert_digits(fit.f, 330.285339234588, 12);
    // SciPy 1.17.1: scipy.stats.f.sf(330.285339234588, 6, 9)
    assert_digits(fit.f_p, 4.984030528724813e-10, 9);
}

#[test]
fn wampler_1_an_exact_polynomial_of_the_fifth_degree() {
    let x: Vec<f64> = (0..=20).map(f64::from).collect();
    let powers: Vec<Vec<f64>> = (1..=5).map(|power| x.iter().map(|x| x.powi(power)).collect()).collect();
    let y: Vec<f64> = (0..=20).map(|i| 1.0 + powers.iter().map(|power| power[i]).sum::<f64>()).collect();
    let fit = fit(&y, &powers, true).unwrap();
    for coefficient in fit.intercept.iter().chain(&fit.coefficients) {
        assert_digits(coefficient.value, 1.0, 7);
    }
    assert_digits(fit.r_squared, 1.0, 14);
}

#[test]
fn noint_1_a_line_through_zero() {
    let (x, y): (Vec<f64>, Vec<f64>) = (60..=70).map(|i| (f64::from(i), f64::from(i + 70))).unzip();
    let fit = fit(&y, &[x], false).unwrap();
    assert_eq!(fit.intercept, None);
    assert_coefficients(&fit, &[(2.07438016528926, 0.165289256198347E-01)], 13);
    assert_digits(fit.residual_deviation, 3.56753034006338, 13);
    assert_digits(fit.r_squared, 0.999365492298663, 14);
    assert_digits(fit.f, 15750.25, 12);
    // statsmodels 0.15.0: OLS(y, x).fit().rsquared_adj
    assert_digits(fit.adjusted_r_squared, 0.9993020415285291, 14);
}

const CLOCK: [f64; 7] = [12.61, 12.42, 12.44, 12.9, 13.1, 12.2, 12.75];

fn user_and_system() -> Vec<Vec<f64>> {
    vec![vec![23.50, 23.08, 23.06, 24.1, 24.4, 22.7, 23.6], vec![1.05, 1.05, 1.10, 1.02, 1.2, 1.01, 1.12]]
}

#[test]
fn all_statistics_match_statsmodels() {
    // statsmodels 0.15.0: OLS(clock, add_constant(numpy.array([user, system]).T)).fit()
    let fit = fit(&CLOCK, &user_and_system(), true).unwrap();
    let expected = [
        (0.8818023635456775, 0.4670709950177021, 0.13206418848335266, (-0.41499461435108453, 2.17859934144244)),
        (0.47696911200219705, 0.02365725066220715, 3.572383234360745e-05, (0.41128605419867476, 0.5426521698057194)),
        (0.5052427387468299, 0.2142870437708618, 0.0778508406565843, (-0.08971347503808469, 1.1001989525317444)),
    ];
    for (found, (value, error, p, (low, high))) in fit.intercept.iter().chain(&fit.coefficients).zip(expected) {
        assert_digits(found.value, value, 10);
        assert_digits(found.standard_error, error, 10);
        assert_digits(found.p, p, 9);
        assert_digits(found.low, low, 9);
        assert_digits(found.high, high, 9);
    }
    for (found, expected) in [
        (fit.r_squared, 0.9941494038008433),
        (fit.adjusted_r_squared, 0.991224105701265),
        (fit.f, 339.8455029058887),
        (fit.f_p, 3.422947588558673e-05),
        (fit.residual_deviation, 0.02896723778473923),
    ] {
        assert_digits(found, expected, 9);
    }
}

#[test]
fn unusable_regressors_are_named() {
    let mut regressors = user_and_system();
    let sum = regressors[0].iter().zip(&regressors[1]).map(|(user, system)| 3.0 * user - system + 7.0).collect();
    regressors.push(sum);
    assert_eq!(fit(&CLOCK, &regressors, true), Err(FitError::Collinear(2)));
    // Without an intercept the 7 is a separate direction.
    assert!(fit(&CLOCK, &regressors, false).is_ok());
    regressors[2] = vec![0.1; 7];
    assert_eq!(fit(&CLOCK, &regressors, true), Err(FitError::Constant(2)));
    assert!(fit(&CLOCK, &regressors, false).is_ok());
    regressors[2] = vec![0.0; 7];
    assert_eq!(fit(&CLOCK, &regressors, false), Err(FitError::Constant(2)));
    let few: Vec<Vec<f64>> = user_and_system().into_iter().map(|column| column[..3].to_vec()).collect();
    assert_eq!(fit(&CLOCK, &few, true), Err(FitError::TooFew { observations: 3, coefficients: 3 }));
}

proptest::proptest! {
    #[test]
    fn units_and_origins_of_regressors_only_change_their_coefficients(
        rows in proptest::collection::vec((-1.0..1.0_f64, -1.0..1.0_f64, -1.0..1.0_f64), 6..20),
        power in -20..20_i32,
        origin in -1e3..1e3_f64,
    ) {
        let column = |of: fn(&(f64, f64, f64)) -> f64| rows.iter().map(of).collect::<Vec<_>>();
        let (y, first, second) = (column(|row| row.0), column(|row| row.1), column(|row| row.2));
        let unit = 10.0_f64.powi(power);
        let moved: Vec<f64> = first.iter().map(|value| (value + origin) * unit).collect();
        let (plain, moved) = (fit(&y, &[first, second.clone()], true), fit(&y, &[moved, second], true));
        let (Ok(plain), Ok(moved)) = (plain, moved) else { return Ok(()) };
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (a.abs() + b.abs() + 1e-3);
        assert!(close(plain.r_squared, moved.r_squared) && close(plain.residual_deviation, moved.residual_deviation));
        assert!(close(plain.coefficients[0].t, moved.coefficients[0].t));
        assert!(close(plain.coefficients[0].value, moved.coefficients[0].value * unit));
        assert!(close(plain.coefficients[1].value, moved.coefficients[1].value));
    }
}

#[test]
fn a_column_far_from_zero_that_varies_is_not_constant() {
    // Such as times in nanoseconds since a machine was started.
    let far: Vec<f64> = (0..20).map(|n| 1e12 + f64::from(n)).collect();
    let response: Vec<f64> = (0..20).map(|n| 3.0 * f64::from(n) + f64::from(n % 2)).collect();
    let near: Vec<f64> = (0..20).map(f64::from).collect();
    let (far, near) = (fit(&response, &[far], true).unwrap(), fit(&response, &[near], true).unwrap());
    assert!((far.coefficients[0].value - near.coefficients[0].value).abs() < 1e-12);
    assert_eq!(fit(&response, &[vec![0.1; 20]], true), Err(FitError::Constant(0)), "its mean is rounded");
}
