//! The keys of a distribution table such as `compute`.

use super::{DISTRIBUTIONS, Key, KeyDefault, Value, key};

/// `distribution`
pub const DISTRIBUTION: Key = key(
    "distribution",
    Value::OneOf(&DISTRIBUTIONS),
    KeyDefault::Is("normal"),
    "\"exponential\"",
    "the distribution of times",
);
/// `mean`
pub const MEAN: Key = key(
    "mean",
    Value::Span,
    KeyDefault::Is("required for `normal`, `exponential` and `log-normal`"),
    "\"5.32 us\"",
    "the mean",
);
/// `sd`
pub const SD: Key = key(
    "sd",
    Value::Span,
    KeyDefault::Is("0 ns"),
    "\"0.532 us\"",
    "the standard deviation of `normal`, at most the mean, and of `log-normal`",
);
/// `from`
pub const FROM: Key =
    key("from", Value::Span, KeyDefault::Is("required for `uniform`"), "\"1 us\"", "the shortest time");
/// `to`
pub const TO: Key = key("to", Value::Span, KeyDefault::Is("required for `uniform`"), "\"9 us\"", "the longest time");
/// `values`
pub const VALUES: Key = key(
    "values",
    Value::Spans,
    KeyDefault::Is("required for `empirical`"),
    "[\"1 us\", \"1 us\", \"7 us\"]",
    "the possible times in any order",
);
/// `weights`
pub const WEIGHTS: Key = key(
    "weights",
    Value::Weights,
    KeyDefault::Is("equal ones"),
    "[2, 1, 0.5]",
    "for `empirical`, the relative frequency of each value",
);

/// All keys.
pub const ALL: &[Key] = &[DISTRIBUTION, MEAN, SD, FROM, TO, VALUES, WEIGHTS];
/// The further keys of each distribution.
pub const OF_DISTRIBUTIONS: [(&str, &[Key]); 5] = [
    (DISTRIBUTIONS[0], &[MEAN, SD]),
    (DISTRIBUTIONS[1], &[FROM, TO]),
    (DISTRIBUTIONS[2], &[MEAN]),
    (DISTRIBUTIONS[3], &[MEAN, SD]),
    (DISTRIBUTIONS[4], &[VALUES, WEIGHTS]),
];
