//! Units and identifiers: integer nanoseconds, and numbered things with a type of their own.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;
use std::time::Duration;

/// A length of time in whole nanoseconds; at most 584 years.
///
/// Addition and multiplication saturate: [`Span::MAX`] means "forever". Subtracting a longer span
/// from a shorter one gives zero.
///
/// Written with its unit, as in `"5.32 us"`; the units are `ns`, `us`, `ms` and `s`. The printed
/// form parses back to the same span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Span(u64);

impl Span {
    /// No time.
    pub const ZERO: Span = Span(0);
    /// Forever.
    pub const MAX: Span = Span(u64::MAX);

    /// `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Span {
        Span(n)
    }

    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Span {
        Span(n.saturating_mul(1_000))
    }

    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Span {
        Span(n.saturating_mul(1_000_000))
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The span in seconds, for statistics and for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The span `thousandths`/1000 times, rounded down; so `"0.62 cs"` is `cs.scaled(620)`.
    pub const fn scaled(self, thousandths: u64) -> Span {
        let scaled = self.0 as u128 * thousandths as u128 / 1000;
        if scaled > u64::MAX as u128 { Span::MAX } else { Span(scaled as u64) }
    }

    /// The longest whole multiple of `step` that is no longer than this span.
    pub const fn floor_to(self, step: Span) -> Span {
        if step.0 <= 1 { self } else { Span(self.0 - self.0 % step.0) }
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Span {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Span) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

/// The units of a span, largest first, with their length in nanoseconds.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, length) = UNITS.into_iter().find(|&(_, length)| self.0 >= length).unwrap_or(("ns", 1));
        let digits = length.ilog10() as usize;
        let fraction = format!("{:0digits$}", self.0 % length);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        f.pad(&format!("{}{point}{fraction} {unit}", self.0 / length))
    }
}

/// The reason why a text is not a span. The message shows the correct form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseSpanError {
    /// A number without a unit.
    #[error("missing unit: write \"{0} us\" (or ns, ms, s)")]
    MissingUnit(String),
    /// The text after the number is not a unit of time.
    #[error("unknown unit `{0}`: the units of time are ns, us, ms and s")]
    UnknownUnit(String),
    /// The text before the unit is not a decimal number.
    #[error("`{0}` is not a span of time: write a number and a unit, \"20 us\"")]
    NotANumber(String),
    /// The number is negative.
    #[error("a span of time cannot be negative")]
    Negative,
    /// It has digits below the nanosecond.
    #[error("finer than one nanosecond")]
    TooFine,
    /// It has more nanoseconds than fit.
    #[error("longer than 584 years")]
    TooLong,
}

impl FromStr for Span {
    type Err = ParseSpanError;

    fn from_str(text: &str) -> Result<Span, ParseSpanError> {
        let text = text.trim();
        let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
        let (number, unit) = (text[..split].trim_end(), &text[split..]);
        if number.starts_with('-') {
            return Err(ParseSpanError::Negative);
        }
        let (whole, fraction) = decimal(number).ok_or_else(|| ParseSpanError::NotANumber(text.to_owned()))?;
        if unit.is_empty() {
            return Err(ParseSpanError::MissingUnit(number.to_owned()));
        }
        let unit = if unit == "µs" { "us" } else { unit };
        let known = UNITS.into_iter().find(|&(name, _)| name == unit);
        let (_, length) = known.ok_or_else(|| ParseSpanError::UnknownUnit(unit.to_owned()))?;
        let fraction = scale_fraction(fraction, length).ok_or(ParseSpanError::TooFine)?;
        let nanos = whole.and_then(|whole| whole.checked_mul(length)).and_then(|nanos| nanos.checked_add(fraction));
        nanos.map(Span).ok_or(ParseSpanError::TooLong)
    }
}

/// Splits an unsigned decimal into its whole part, `None` if too large, and the digits of its
/// fraction.
fn decimal(number: &str) -> Option<(Option<u64>, &str)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (digits(whole) && digits(fraction)).then(|| (whole.parse().ok(), fraction))
}

/// `0.fraction` of `length`, exactly; `None` if that is not a whole number.
fn scale_fraction(fraction: &str, length: u64) -> Option<u64> {
    let fraction = fraction.trim_end_matches('0');
    let places = length.ilog10() as usize;
    if fraction.len() > places {
        return None;
    }
    format!("{fraction:0<places$}").parse().ok().or(Some(0))
}

/// Parses an unsigned decimal with at most three places into thousandths, as in the `0.62` of
/// `"0.62 cs"`.
pub(crate) fn thousandths(number: &str) -> Option<u64> {
    let (whole, fraction) = decimal(number)?;
    whole?.checked_mul(1000)?.checked_add(scale_fraction(fraction, 1000)?)
}

/// Formats a number of thousandths as [`thousandths`] reads it.
pub(crate) fn of_thousandths(n: u64) -> String {
    let fraction = format!("{:03}", n % 1000);
    let fraction = fraction.trim_end_matches('0');
    format!("{}{}{fraction}", n / 1000, if fraction.is_empty() { "" } else { "." })
}

/// A point in time in nanoseconds since the zero of the world's clock.
///
/// The simulator's zero is the start of the run; the host's is that of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Instant(u64);

impl Instant {
    /// The zero of the clock.
    pub const ZERO: Instant = Instant(0);
    /// The last moment of the clock.
    pub const MAX: Instant = Instant(u64::MAX);

    /// `n` nanoseconds after the zero of the clock.
    pub const fn from_nanos(n: u64) -> Instant {
        Instant(n)
    }

    /// Nanoseconds since the zero of the clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` until now; zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Instant {
    type Output = Instant;
    fn add(self, span: Span) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

macro_rules! identities {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
        pub struct $name(
            /// Its number, counted from zero.
            pub u32,
        );

        impl $name {
            /// The number as an index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

identities! {
    /// A CPU, by its number.
    CpuId;
    /// A cell of a mesh, counted row by row.
    CellId;
    /// A thread, by its number in the run, or in the team of a barrier.
    ThreadId;
    /// A job of a scenario, in the order of the file; each copy counts as one.
    JobId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_with_each_unit() {
        for (text, nanos) in
            [("7 ns", 7), ("5.32 us", 5_320), ("44us", 44_000), ("0.5 ms", 500_000), (" 2 s ", 2_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(Span(nanos)), "{text}");
        }
    }

    #[test]
    fn invalid_spans_are_rejected_with_a_reason() {
        let error = |text: &str| text.parse::<Span>().unwrap_err();
        assert_eq!(error("100"), ParseSpanError::MissingUnit("100".into()));
        assert_eq!(error("3 minutes"), ParseSpanError::UnknownUnit("minutes".into()));
        assert_eq!(error("-3 us"), ParseSpanError::Negative);
        assert_eq!(error("0.5 ns"), ParseSpanError::TooFine);
        assert_eq!(error("1.2.3 us"), ParseSpanError::NotANumber("1.2.3 us".into()));
        assert_eq!(error(""), ParseSpanError::NotANumber(String::new()));
        assert_eq!(error("us"), ParseSpanError::NotANumber("us".into()));
        assert_eq!(error("18446744074 s"), ParseSpanError::TooLong);
        assert_eq!(error("99999999999999999999 ns"), ParseSpanError::TooLong);
    }

    #[test]
    fn a_printed_span_reads_back_as_itself() {
        for nanos in [0, 1, 999, 1_000, 1_001, 5_320, 999_999, 1_000_000, 1_234_567_890, u64::MAX] {
            let printed = Span(nanos).to_string();
            assert_eq!(printed.parse(), Ok(Span(nanos)), "{printed}");
        }
        assert_eq!(Span(5_320).to_string(), "5.32 us");
        assert_eq!(Span(0).to_string(), "0 ns");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Span::MAX + Span(1), Span::MAX);
        assert_eq!(Span::MAX.scaled(2000), Span::MAX);
        assert_eq!(Span(1) - Span(2), Span::ZERO);
    }

    #[test]
    fn scaling_and_flooring_round_down() {
        assert_eq!(Span(1_001).scaled(500), Span(500));
        assert_eq!(Span(5_999).floor_to(Span(1_000)), Span(5_000));
        assert_eq!(Span(5_999).floor_to(Span(1)), Span(5_999));
    }
}
