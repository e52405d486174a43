//! The keys of a distribution table such as `compute`.

use super::KeyDefault::Is;
use super::{Key, Value};
use crate::distribution::Distribution;

keys! {
    DISTRIBUTION = "distribution", Value::OneOf(&Distribution::NAMES), Is("normal"), r#""exponential""#,
        "the distribution of times";
    MEAN = "mean", Value::Span, Is("required for `normal`, `exponential` and `log-normal`"), r#""5.32 us""#, "the mean";
    SD = "sd", Value::Span, Is("0 ns"), r#""0.532 us""#,
        "the standard deviation of `normal`, at most the mean, and of `log-normal`";
    FROM = "from", Value::Span, Is("required for `uniform`"), r#""1 us""#, "the shortest time";
    TO = "to", Value::Span, Is("required for `uniform`"), r#""9 us""#, "the longest time";
    VALUES = "values", Value::Spans, Is("required for `empirical`"), r#"["1 us", "1 us", "7 us"]"#,
        "the possible times in any order";
    WEIGHTS = "weights", Value::Weights, Is("equal ones"), "[2, 1, 0.5]",
        "for `empirical`, the relative frequency of each value";
}

/// All keys.
pub const ALL: &[Key] = &[DISTRIBUTION, MEAN, SD, FROM, TO, VALUES, WEIGHTS];
/// The further keys of each distribution.
pub const OF_DISTRIBUTIONS: [(&str, &[Key]); 5] = [
    (Distribution::NAMES[0], &[MEAN, SD]),
    (Distribution::NAMES[1], &[FROM, TO]),
    (Distribution::NAMES[2], &[MEAN]),
    (Distribution::NAMES[3], &[MEAN, SD]),
    (Distribution::NAMES[4], &[VALUES, WEIGHTS]),
];
