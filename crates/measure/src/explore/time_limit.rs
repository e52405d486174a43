//! The time that an exploration may take.

use std::time::Duration;

use policy::Span;

/// Parses a time in any unit from nanoseconds to hours.
///
/// # Errors
/// The reason why it is no time, and the form of one.
pub fn parse_time_limit(text: &str) -> Result<Duration, String> {
    let of = |unit: &str, seconds: f64| {
        let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        Duration::try_from_secs_f64(number * seconds).ok()
    };
    if let Some(duration) = of("min", 60.0).or_else(|| of("h", 3600.0)) {
        return Ok(duration);
    }
    let span: Span = text.parse().map_err(|_| "write a time as \"90 s\", \"10 min\" or \"1 h\"".to_owned())?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_up_to_hours() {
        for (text, seconds) in [("90 s", 90.0), ("10 min", 600.0), ("1.5h", 5400.0), ("500 ms", 0.5)] {
            assert_eq!(parse_time_limit(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["10", "min", "-1 min", "10 days", "inf h", "1e300 h"] {
            assert!(parse_time_limit(text).is_err(), "{text}");
        }
    }
}
