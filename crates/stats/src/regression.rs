//! Ordinary least squares: a response as a sum of regressors, each times a coefficient, with the
//! usual statistics.
//!
//! Uses Householder's QR decomposition of the regressors, not the normal equations, which would
//! lose half of all digits. With an intercept the columns are centred first, and all are scaled to
//! unit length, so that neither distant origins nor units cost digits.

use serde::Serialize;

use super::distribution::{two_sided_t, two_sided_t_quantile, upper_f};
use super::{average, sum_of_squares};

/// A fitted model.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The constant term, if the model has one.
    pub intercept: Option<Coefficient>,
    /// A coefficient for each regressor, in their order.
    pub coefficients: Vec<Coefficient>,
    /// The number of observations.
    pub observations: usize,
    /// The degrees of freedom: observations minus coefficients.
    pub freedom: usize,
    /// The explained share of the response's variation about its mean or, without intercept, zero.
    pub r_squared: f64,
    /// The same, minus the share that this many regressors would explain by chance.
    pub adjusted_r_squared: f64,
    /// The explained variation per regressor over the residual variation per degree of freedom.
    pub f: f64,
    /// The probability of an F at least this large if no regressor mattered.
    pub f_p: f64,
    /// The standard deviation of the residuals, in the unit of the response.
    pub residual_deviation: f64,
}

/// One coefficient of a model. JSON has null for infinite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coefficient {
    /// Its value.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end of its 95 % interval.
    pub high: f64,
    /// The value in standard errors; infinite if the model fits exactly.
    pub t: f64,
    /// The probability of a t at least this far from zero if the coefficient were zero.
    pub p: f64,
}

/// Why a model cannot be fitted. Regressors are named by their numbers, from zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// There must be more observations than coefficients.
    #[error(
        "{observations} observations are too few for {coefficients} coefficients: it takes one more than there are coefficients"
    )]
    TooFew {
        /// The number of observations.
        observations: usize,
        /// The number of coefficients.
        coefficients: usize,
    },
    /// The response is constant or, without an intercept, zero.
    #[error("the response is constant")]
    ConstantResponse,
    /// A regressor is constant, as the intercept is.
    #[error("regressor {0} is constant")]
    Constant(usize),
    /// A regressor is a linear combination of others, so its coefficient is undetermined.
    #[error("regressor {0} is a combination of those before it")]
    Collinear(usize),
}

/// A regressor counts as a combination of those before it if the part that they do not explain is
/// shorter than this share of it: the rest is rounding.
const COLLINEAR: f64 = 1e-10;

/// Fits `response` by `regressors` of the same length (values beyond the shortest are ignored), and
/// an intercept if requested.
pub fn fit(response: &[f64], regressors: &[Vec<f64>], with_intercept: bool) -> Result<Fit, FitError> {
    let n = regressors.iter().map(Vec::len).fold(response.len(), usize::min);
    let count = regressors.len() + usize::from(with_intercept);
    if n <= count || count == 0 {
        return Err(FitError::TooFew { observations: n, coefficients: count });
    }
    let centre = |column: &[f64]| if with_intercept { average(&column[..n]).unwrap_or(0.0) } else { 0.0 };
    let centred = |column: &[f64], mean: f64| column[..n].iter().map(|value| value - mean).collect::<Vec<_>>();

    let (mut columns, mut means, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for (number, regressor) in regressors.iter().enumerate() {
        let mean = centre(regressor);
        let mut column = centred(regressor, mean);
        let length = norm(&column);
        if is_rounding(length, &regressor[..n]) {
            return Err(FitError::Constant(number));
        }
        column.iter_mut().for_each(|value| *value /= length);
        columns.push(column);
        means.push(mean);
        lengths.push(length);
    }
    let mean = centre(response);
    let mut rest = centred(response, mean);
    let total = sum_of_squares(&rest, 0.0);
    if is_rounding(total.sqrt(), &response[..n]) {
        return Err(FitError::ConstantResponse);
    }

    let triangle = triangular(&mut columns, &mut rest)?;
    let inverse = inverse(&triangle);
    let k = regressors.len();
    let scaled = |of: usize| inverse.iter().zip(&rest).map(|(column, explained)| column[of] * explained).sum::<f64>();
    let slopes: Vec<f64> = (0..k).map(|of| scaled(of) / lengths[of]).collect();

    let freedom = n - count;
    let left: f64 = rest[k..].iter().map(|value| value * value).sum();
    let variance = left / freedom as f64;
    let quantile = two_sided_t_quantile(0.95, freedom as f64).unwrap_or(f64::NAN);
    let coefficient = |value: f64, squared_error: f64| {
        let standard_error = squared_error.sqrt();
        let t = if value == 0.0 { 0.0 } else { value / standard_error };
        let (low, high) = (value - quantile * standard_error, value + quantile * standard_error);
        Coefficient { value, standard_error, low, high, t, p: two_sided_t(t, freedom as f64) }
    };
    let squares = |of: usize| inverse.iter().map(|column| column[of].powi(2)).sum::<f64>();
    let coefficients = (0..k).map(|of| coefficient(slopes[of], variance * squares(of) / lengths[of].powi(2))).collect();
    let intercept = with_intercept.then(|| {
        let shift: f64 = slopes.iter().zip(&means).map(|(slope, mean)| slope * mean).sum();
        // The intercept is the mean minus slopes times means; its variance is the sum of both.
        let along = |column: &Vec<f64>| (0..k).map(|of| means[of] / lengths[of] * column[of]).sum::<f64>();
        let of_slopes: f64 = inverse.iter().map(|column| along(column).powi(2)).sum();
        coefficient(mean - shift, variance * (1.0 / n as f64 + of_slopes))
    });

    let explained: f64 = rest[..k].iter().map(|value| value * value).sum();
    let free = (n - usize::from(with_intercept)) as f64;
    let f = if k == 0 { f64::NAN } else { explained / k as f64 / variance };
    Ok(Fit {
        intercept,
        coefficients,
        observations: n,
        freedom,
        // If all is explained, rounding may add a little.
        r_squared: (explained / total).min(1.0),
        adjusted_r_squared: 1.0 - left / total * free / freedom as f64,
        f,
        f_p: upper_f(f, k as f64, freedom as f64),
        residual_deviation: variance.sqrt(),
    })
}

/// Reflects the columns, and the response with them, until the columns form an upper triangle.
/// Returns that, column by column. The first entries of the response then contain the part that the
/// columns explain, and the others the residual.
fn triangular(columns: &mut [Vec<f64>], response: &mut [f64]) -> Result<Vec<Vec<f64>>, FitError> {
    let mut triangle = Vec::with_capacity(columns.len());
    for place in 0..columns.len() {
        let (done, rest) = columns.split_at_mut(place + 1);
        let column = &mut done[place];
        let length = norm(&column[place..]);
        if length <= COLLINEAR {
            return Err(FitError::Collinear(place));
        }
        // Away from the axis rather than towards it, to avoid cancellation.
        let diagonal = if column[place] > 0.0 { -length } else { length };
        let mut mirror = column[place..].to_vec();
        mirror[0] -= diagonal;
        let squared = mirror.iter().map(|value| value * value).sum::<f64>();
        for other in rest.iter_mut().map(Vec::as_mut_slice).chain([&mut *response]) {
            let along: f64 = mirror.iter().zip(&other[place..]).map(|(a, b)| a * b).sum();
            other[place..].iter_mut().zip(&mirror).for_each(|(value, of)| *value -= 2.0 * along / squared * of);
        }
        column.truncate(place);
        column.push(diagonal);
        triangle.push(std::mem::take(column));
    }
    Ok(triangle)
}

/// The inverse of an upper triangular matrix, both by columns.
fn inverse(triangle: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let k = triangle.len();
    let solve = |unit: usize| {
        let mut column = vec![0.0; k];
        for row in (0..=unit).rev() {
            let known: f64 = (row + 1..=unit).map(|of| triangle[of][row] * column[of]).sum();
            let wanted = if row == unit { 1.0 } else { 0.0 };
            column[row] = (wanted - known) / triangle[row][row];
        }
        column
    };
    (0..k).map(solve).collect()
}

/// Whether a column was constant: after centring it is as short as the rounding error of its mean,
/// in the last of about sixteen digits. A column of zeros is constant too.
fn is_rounding(length: f64, before: &[f64]) -> bool {
    const ROUNDING: f64 = 1e-14;
    length <= ROUNDING * norm(before)
}

fn norm(values: &[f64]) -> f64 {
    sum_of_squares(values, 0.0).sqrt()
}
